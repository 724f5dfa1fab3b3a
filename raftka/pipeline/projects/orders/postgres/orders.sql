-- The table. PostgreSQL needs wal_level = logical, and Debezium a user with REPLICATION.
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer text NOT NULL,
  state text NOT NULL DEFAULT 'NEW',
  amount numeric(10, 2) NOT NULL,
  latitude double precision NOT NULL,
  longitude double precision NOT NULL,
  placed timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE orders REPLICA IDENTITY FULL;  -- so that large values that did not change are in the events
