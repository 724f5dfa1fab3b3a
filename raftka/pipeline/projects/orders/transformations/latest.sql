-- The newest state of each order for the page. One that is gone has no place.
CREATE TEMPORARY VIEW latest_orders AS
SELECT
  id AS `order`,
  CASE WHEN NOT _deleted THEN latitude END AS latitude,
  CASE WHEN NOT _deleted THEN longitude END AS longitude,
  CASE WHEN NOT _deleted THEN state END AS state,
  _timestamp
FROM STREAM orders;
