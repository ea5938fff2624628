"""JupyterLab and code-server, which the tests of sessions run, with their pins."""
