-- The table message had a row for each run, for those who ask with SQL. All of it
-- follows from the events, and nothing read it.
DROP TABLE IF EXISTS message;
