-- Each truck's minute, once it is over and the watermark has passed it.
CREATE TEMPORARY VIEW truck_minutes AS
SELECT
  window.start AS minute,
  truck,
  count(*) AS positions,
  round(avg(latitude), 5) AS latitude,
  round(avg(longitude), 5) AS longitude,
  max(speed_kmh) AS fastest_kmh
FROM STREAM trucks
GROUP BY window(_timestamp, '1 minute'), truck;
