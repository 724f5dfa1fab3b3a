"""The page for SQL: the SQL server behind it, and statements under way."""
