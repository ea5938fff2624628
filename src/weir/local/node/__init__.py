"""Node process: carries out the server's orders on this machine, and starts every pod.

In a pool for several people it is the only process of Weir with the rights of root. It takes typed orders
from a socket pair that only the server holds, and checks each one. It reads nothing that a user wrote:
specs of starts pass through it as open files. Standard library only, since every start is a fork of it.
"""
