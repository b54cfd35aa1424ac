-- lease_token is the time in microseconds, times 1000, so that after a restore the tokens of before do not come again. The
-- constraint had no room for it.
ALTER TABLE arbor.session DROP CONSTRAINT session_lease_token_check;

-- As before, but for NUL: PostgreSQL's text cannot hold it, and one event with an escaped NUL would end every query
-- that looks into json with an error. It is shown as U+FFFD.
CREATE OR REPLACE VIEW arbor.event (session, seq, json) AS
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
		CASE WHEN line ~ '^[a-z][^ {]*( [^ {]*){8} {' THEN string_to_array(left(line, position('{' IN line) - 2), ' ') END AS w
		FROM (SELECT session, seq, CASE WHEN position(E'\\u0000' IN line) = 0 THEN line
			ELSE regexp_replace(line, E'(?<!\\\\)((\\\\\\\\)*)\\\\u0000', E'\\1\\\\ufffd', 'g') END AS line FROM arbor.log) AS kept) AS lines;
