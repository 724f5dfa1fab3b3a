"""Views by login: sessions of one login share a view, so that a user's ten browsers cost the
cluster what one does.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftka.client.blocking.client import Client
from raftka.security.client_security import ClientSecurity

if TYPE_CHECKING:
    from raftka.console.view.view import View


class SharedViews:
    """For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: dict[ClientSecurity, tuple[View, int]] = {}  # by login: a view, and its users

    def take(self, login: ClientSecurity, make_client: Callable[[], Client]) -> "View":
        """Return the view of a login, until it is given back. `make_client` is used for a view
        that is new.
        """
        from raftka.console.view.view import View  # the first page that needs it pays

        with self._lock:
            view, users = self._views.get(login) or (View(make_client), 0)
            self._views[login] = view, users + 1
            return view

    def give(self, login: ClientSecurity) -> None:
        """Close the view when this was its last user."""
        with self._lock:
            view, users = self._views[login]
            if users > 1:
                self._views[login] = view, users - 1
                return
            del self._views[login]
        view.close()
