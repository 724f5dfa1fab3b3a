"""`raftka sql` in a process of its own, whose server has the session of sql_server.py."""

from functools import partial

from raftka.cli import main
from raftka.cli.spark import sql_verbs
from raftka.sql.server.launch import Wanted

if __name__ == "__main__":
    vars(sql_verbs)["Wanted"] = partial(Wanted, module="tests.kit.sql_server")
    main()
