"""The two real runtimes, and what they share: the one package that touches the outside. linux/ is
built on what only Linux has, portable/ on Trio's own waits and on threads; choice.py chooses.
"""

from raftka.runtime.supported import check_system

check_system()  # before a module is imported that Windows has not
