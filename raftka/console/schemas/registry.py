"""The console's schema registry, asked by Confluent's REST API. Any such registry will do."""

import json
from collections.abc import Mapping
from urllib.parse import quote

from raftka.console.call import ApiError
from raftka.console.decoding.registry import access_of
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json, JsonObject
from raftka.pipeline.records.registry_client import Http, RegistryAccess

NO_REGISTRY = "NO_REGISTRY"
HOW_TO_GET_ONE = (
    "this console has no schema registry: `raftka registry` starts one, and "
    "`raftka console --registry URL` names it"
)
LOGIN = (
    "the schema registry does not let the console in: --registry-login, or "
    "console.registry.login.location, names a file with NAME:PASSWORD"
)
# What a registry answers becomes: its 409 and 422 are about the schema that was given.
STATUSES = {401: 403, 403: 403, 404: 404, 409: 409, 422: 400}
SHOWN = 2000  # characters of a registry's reason


def registry_of(settings: ConsoleSettings) -> "Registry":
    """Raises ApiError for a console without one."""
    if not settings.registry:
        raise ApiError(404, NO_REGISTRY, HOW_TO_GET_ONE)
    return Registry(access_of(settings))


class Registry:
    """Each method raises ApiError with the registry's own reason. For many threads."""

    def __init__(self, access: RegistryAccess) -> None:
        (self.url,) = access.urls
        self._http = Http(access)

    def subjects(self) -> list[str]:
        found = self._ask("GET", "/subjects")
        return sorted(map(str, found)) if isinstance(found, list) else self._refuse_answer()

    def versions(self, subject: str) -> list[int]:
        found = self._ask("GET", f"{_path(subject)}/versions")
        return sorted(map(int, found)) if isinstance(found, list) else self._refuse_answer()

    def version(self, subject: str, version: int | str) -> JsonObject:
        """`version`: a number, or "latest"."""
        return self._object("GET", f"{_path(subject)}/versions/{version}")

    def level(self, subject: str) -> tuple[str, bool]:
        """Return the compatibility level of a subject, and whether it is its own."""
        path = f"/config/{quote(subject, safe='')}"
        try:
            own = self._object("GET", path).get("compatibilityLevel")
        except ApiError as error:
            if error.status != 404:
                raise
            own = None
        if own:
            return str(own), True
        return str(self._object("GET", "/config").get("compatibilityLevel", "")), False

    def find(self, subject: str, schema: Mapping[str, Json]) -> int | None:
        """Return the version that this schema has; None: it is new."""
        try:
            return int(self._object("POST", _path(subject), schema)["version"])
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def incompatibilities(self, subject: str, schema: Mapping[str, Json]) -> list[str] | None:
        """Return the reasons why a schema does not go with the subject's versions, as its level has
        it; None: it goes.
        """
        path = f"/compatibility{_path(subject)}/versions?verbose=true"
        found = self._object("POST", path, schema)
        if found.get("is_compatible"):
            return None
        return [str(each) for each in found.get("messages") or ()]

    def register(self, subject: str, schema: Mapping[str, Json]) -> int:
        """Return the schema's id."""
        return int(self._object("POST", f"{_path(subject)}/versions", schema)["id"])

    def _object(
        self, method: str, path: str, document: Mapping[str, Json] | None = None
    ) -> JsonObject:
        found = self._ask(method, path, document)
        return found if isinstance(found, dict) else self._refuse_answer()

    def _ask(self, method: str, path: str, document: Mapping[str, Json] | None = None) -> Json:
        body = None if document is None else json.dumps(document).encode()
        try:
            status, answer = self._http.send(method, self.url, path, body)
        except OSError as error:
            reason = str(error) or type(error).__name__
            raise ApiError(
                503, "REGISTRY_AWAY", f"the schema registry {self.url} does not answer: {reason}"
            ) from None
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if status == 200 and found is not None:
            return found
        if status == 401:
            raise ApiError(403, "REGISTRY_LOGIN", LOGIN)
        if isinstance(found, dict) and "message" in found:
            code, text = str(found.get("error_code", status)), str(found["message"])[:SHOWN]
            raise ApiError(STATUSES.get(status, 502), f"REGISTRY_{code}", text)
        if status == 403:
            raise ApiError(403, "REGISTRY_LOGIN", LOGIN)
        return self._refuse_answer()

    def _refuse_answer(self) -> Json:
        raise ApiError(502, "NO_REGISTRY_ANSWER", f"{self.url} answers as no schema registry does")


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
