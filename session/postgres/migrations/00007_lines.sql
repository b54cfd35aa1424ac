-- An event a row, as a line of nine words and a JSON object, which is about half as long as its whole
-- JSON; see event.Line. What has no line is whole JSON, and so are the events of before.
ALTER TABLE arbor.event RENAME TO log;
ALTER TABLE arbor.log RENAME COLUMN json TO line;
ALTER TABLE arbor.log ALTER COLUMN line TYPE text COLLATE "C";

-- The events as the flat JSON objects of docs/events.md, byte for byte, for those who ask with SQL.
CREATE VIEW arbor.event (session, seq, json) AS
	SELECT session, seq, CASE WHEN w IS NULL THEN line ELSE
		'{"seq":' || seq
		|| coalesce(',"id":"' || nullif(w[2], '') || '"', '')
		|| coalesce(',"turnId":"' || nullif(w[3], '') || '"', '')
		|| coalesce(',"runId":"' || nullif(w[4], '') || '"', '')
		|| coalesce(',"scope":"' || nullif(w[5], '') || '"', '')
		|| coalesce(',"parentId":"' || nullif(w[6], '') || '"', '')
		|| ',"type":"' || w[1] || '"'
		|| coalesce(',"agent":"' || coalesce(nullif(w[7], ''), nullif(regexp_replace(w[8], '^.*/', ''), '')) || '"', '')
		|| coalesce(',"path":"' || nullif(w[8], '') || '"', '')
		|| coalesce(',"time":"' || to_char(timestamp '1970-01-01' + (nullif(w[9], '')::bigint / 1000000000) * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS')
			|| rtrim(rtrim('.' || lpad((nullif(w[9], '')::bigint % 1000000000)::text, 9, '0'), '0'), '.') || 'Z"', '')
		|| CASE payload WHEN '{}' THEN '}' ELSE ',' || substr(payload, 2) END
		END::json
	FROM (SELECT session, seq, line, substr(line, position('{' IN line)) AS payload,
		CASE WHEN line ~ '^[a-z][^ {]*( [^ {]*){8} {' THEN string_to_array(left(line, position('{' IN line) - 2), ' ') END AS w FROM arbor.log) AS lines;

-- A program of before that still runs writes to the table that was here.
CREATE FUNCTION arbor.schema_is_newer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a newer version of this program has brought the database up to date: end this one, and start the newer version';
END $$;

CREATE TRIGGER event_of_schema_6 INSTEAD OF INSERT OR UPDATE OR DELETE ON arbor.event FOR EACH ROW EXECUTE FUNCTION arbor.schema_is_newer();
