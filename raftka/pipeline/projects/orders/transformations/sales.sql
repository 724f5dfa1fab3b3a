-- Each minute's new orders, once it is over and the watermark has passed it.
CREATE TEMPORARY VIEW sales_by_minute AS
SELECT
  window.start AS minute,
  count(*) AS orders,
  sum(amount) AS amount
FROM STREAM orders
WHERE _op = 'c'
GROUP BY window(_timestamp, '1 minute');
