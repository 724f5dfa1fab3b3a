-- What happens to orders, for the page. A deletion is told twice, by its event and by a tombstone, which has no _op.
CREATE TEMPORARY VIEW order_events AS
SELECT
  concat(_partition, '-', _offset) AS id,
  id AS `order`,
  CASE WHEN _deleted THEN 'GONE' ELSE state END AS event,
  CASE WHEN NOT _deleted THEN concat(customer, ', ', amount) END AS note,
  coalesce(_changed, _timestamp) AS at
FROM STREAM orders
WHERE _op IS NOT NULL;
