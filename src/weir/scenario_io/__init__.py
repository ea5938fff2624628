"""Reading and writing of scenario and policy files. All mistakes of a file are reported at once.

Reading takes four steps. The text becomes values with their lines (`document`). The values are checked
against the format (`specs`, `partial`). Names and amounts are checked against one another (`references`,
`checks`, `initial_placement`). The nouns are built (`build`, `reading`). Every mistake has a correction.
"""
