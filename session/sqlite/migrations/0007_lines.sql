-- An event a row, as a line of nine words and a JSON object, which is about half as long as its whole
-- JSON; see event.Line. What has no line is whole JSON, and so are the events of before.
ALTER TABLE event RENAME TO log;
ALTER TABLE log RENAME COLUMN json TO line;

-- The events as the flat JSON objects of docs/events.md, byte for byte, for those who ask with SQL.
CREATE VIEW event (session, seq, json) AS
	SELECT session, seq, CASE WHEN line NOT GLOB '[a-z]*' THEN line WHEN NOT json_valid(words) THEN line WHEN json_array_length(words) <> 9 THEN line ELSE
		'{"seq":' || seq
		|| coalesce(',"id":"' || nullif(json_extract(words, '$[1]'), '') || '"', '')
		|| coalesce(',"turnId":"' || nullif(json_extract(words, '$[2]'), '') || '"', '')
		|| coalesce(',"runId":"' || nullif(json_extract(words, '$[3]'), '') || '"', '')
		|| coalesce(',"scope":"' || nullif(json_extract(words, '$[4]'), '') || '"', '')
		|| coalesce(',"parentId":"' || nullif(json_extract(words, '$[5]'), '') || '"', '')
		|| ',"type":"' || json_extract(words, '$[0]') || '"'
		|| coalesce(',"agent":"' || coalesce(nullif(json_extract(words, '$[6]'), ''),
			nullif(substr(json_extract(words, '$[7]'), 1 + length(rtrim(json_extract(words, '$[7]'), replace(json_extract(words, '$[7]'), '/', '')))), '')) || '"', '')
		|| coalesce(',"path":"' || nullif(json_extract(words, '$[7]'), '') || '"', '')
		|| coalesce(',"time":"' || strftime('%Y-%m-%dT%H:%M:%S', nullif(json_extract(words, '$[8]'), '') / 1000000000, 'unixepoch')
			|| rtrim(rtrim(printf('.%09d', json_extract(words, '$[8]') % 1000000000), '0'), '.') || 'Z"', '')
		|| CASE payload WHEN '{}' THEN '}' ELSE ',' || substr(payload, 2) END
		END
	FROM (SELECT session, seq, line, '["' || replace(substr(line, 1, instr(line, '{') - 2), ' ', '","') || '"]' AS words, substr(line, instr(line, '{')) AS payload FROM log);

-- A program of before, which has the file open, writes to the table that was here.
CREATE TRIGGER event_of_schema_6 INSTEAD OF INSERT ON event BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

CREATE TRIGGER event_delete_of_schema_6 INSTEAD OF DELETE ON event BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;
