"""The dashboard: sign-in, the files of the page, and its live stream. All else it asks for by REST."""
