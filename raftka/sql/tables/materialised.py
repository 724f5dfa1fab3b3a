"""Answers to lookups from materialised tables. The first lookup of a table begins its view, which
ends with the table.
"""

import threading
from collections import Counter
from collections.abc import Callable

from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.brokers import Brokers
from raftka.sql.answers import Answer
from raftka.sql.catalog import Catalog, Stream
from raftka.sql.language.lookups import Lookup
from raftka.sql.limits import TABLES
from raftka.sql.tables.rows import Plan, ValueReader, plan_of
from raftka.sql.tables.view import NotMaterialised, TableView, ViewLost


class MaterialisedTable:
    def __init__(self, view: TableView, values: ValueReader) -> None:
        self.view, self._values = view, values

    def answer(self, plan: Plan, limit: int | None) -> Answer:
        """Raises NotMaterialised and PipelineError."""
        found, age_s = self.view.find([wanted for _, wanted in plan.keys])
        rows = [
            row
            for (value, _), records in zip(plan.keys, found, strict=True)
            for row in self._values.rows(plan, value, records)
        ]
        note = f"from the materialised table, {age_s * 1000:.0f} ms old"
        if limit is not None and len(rows) > limit:
            note = f"there are more than {limit} rows; {note}"
        return Answer(plan.shown, iter(rows[:limit]), note)


class MaterialisedTables:
    """May be used by several threads."""

    def __init__(
        self, open_brokers: Callable[[], Brokers], registry: RegistryAccess | None
    ) -> None:
        self._open_brokers, self._registry = open_brokers, registry
        self._lock = threading.Lock()
        # by name in lower case; the one that was asked last is the last
        self._tables: dict[str, MaterialisedTable] = {}
        self.hits: Counter[str] = Counter()  # of limits, by name

    def answer(self, lookup: Lookup, catalog: Catalog, limit: int | None) -> Answer:
        """Return the rows, at most `limit`. Raise NotMaterialised where Spark is to answer, and
        PipelineError.
        """
        table = catalog.stream(lookup.table)
        plan = None if table is None else plan_of(lookup, table)
        if table is None or plan is None:
            raise NotMaterialised
        self.end_dropped(catalog)
        found = self._table(table)
        try:
            return found.answer(plan, limit)
        except ViewLost:
            self._forget(found)
            raise

    def end_dropped(self, catalog: Catalog) -> None:
        """End the views of tables that are not in the catalog as they were."""
        with self._lock:
            for name, each in list(self._tables.items()):
                if catalog.stream(name) != each.view.table:
                    self._tables.pop(name).view.close()

    def close(self) -> None:
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for each in tables:
            each.view.close()
        for each in tables:
            each.view.join()

    def _table(self, table: Stream) -> MaterialisedTable:
        """Return that of a table; begin it where it is not there."""
        name = table.name.lower()
        with self._lock:
            found = self._tables.pop(name, None)
            if found is None:
                view = TableView(table, self._open_brokers, self.hits)
                found = MaterialisedTable(view, ValueReader(table, self._registry))
                if len(self._tables) >= TABLES.value:
                    self.hits[TABLES.name] += 1
                    self._tables.pop(next(iter(self._tables))).view.close()
            self._tables[name] = found
            return found

    def _forget(self, table: MaterialisedTable) -> None:
        name = table.view.table.name.lower()
        with self._lock:
            if self._tables.get(name) is table:
                self._tables.pop(name).view.close()
