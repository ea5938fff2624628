"""Reading and writing of scenario and policy files. All mistakes of a file are reported at once.

Reading takes four steps: the text becomes values with their lines (`document`), the values are checked
against the format (`specs`, `partial`), names and amounts are checked against one another (`references`,
`checks`, `initial_placement`), and the nouns are built (`build`, `reading`). Every mistake has a correction.
"""
