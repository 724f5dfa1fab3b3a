-- Readings above 30 degrees.
CREATE TEMPORARY VIEW warm_readings AS
SELECT sensor, celsius FROM STREAM readings WHERE celsius > 30;
