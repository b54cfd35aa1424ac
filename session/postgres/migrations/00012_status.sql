-- status is how far the last turn is: 'open', 'waiting', 'done', 'failed' or 'canceled', and '' without a turn. A page of the
-- sessions that have one status, of all users or of one, is a part of the index.
--
-- A program of before gets no lease any more and stores nothing, since it knows lease_random by its former name: it would not
-- keep the status.
ALTER TABLE arbor.session RENAME COLUMN lease_fence TO lease_random;
ALTER TABLE arbor.session ADD COLUMN status text COLLATE "C" NOT NULL DEFAULT '';

-- The status that an event gives a session, or NULL if it changes nothing: those of the conversation itself that begin or end a turn or a
-- run do. What cannot be read changes nothing, so that the line is not taken for JSON.
CREATE FUNCTION arbor.status_of(line text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN type <> 'harness_end' THEN 'open' ELSE
		CASE substring(line FROM '"finishReason":"([a-z_]+)"') WHEN 'transfer' THEN 'open' WHEN 'input_required' THEN 'waiting'
			WHEN 'canceled' THEN 'canceled' WHEN 'error' THEN 'failed' WHEN 'limit' THEN 'failed' ELSE 'done' END END
	FROM (SELECT coalesce(substring(line FROM '^(user|harness_start|harness_end)(?: [^ {]*){3}  '),
		substring(line FROM '^\{"seq":[0-9]+,(?:"(?:id|turnId|runId|parentId)":"(?:[^"\\]|\\.)*",)*"type":"(user|harness_start|harness_end)"')) AS type) AS t
	WHERE type IS NOT NULL
$$;

-- The status that the log of a session has at a position: that of the last event before it that gives one, in the session or in those
-- that it is a fork of.
CREATE FUNCTION arbor.status_at(session bigint, seq bigint) RETURNS text LANGUAGE sql STABLE AS $$
	WITH RECURSIVE line (key, upto, status) AS (
		SELECT status_at.session, status_at.seq, NULL COLLATE "C"
		UNION ALL
		SELECT s.parent_key, least(line.upto, s.parent_seq), (
			SELECT arbor.status_of(l.line) FROM arbor.log l
			WHERE l.session = line.key AND l.seq <= line.upto AND l.line ~ '^(user |harness_|\{)' AND arbor.status_of(l.line) IS NOT NULL
			ORDER BY l.seq DESC LIMIT 1)
		FROM line JOIN arbor.session s ON s.key = line.key WHERE line.status IS NULL)
	SELECT coalesce((SELECT status FROM line WHERE status IS NOT NULL), '')
$$;

UPDATE arbor.session SET status = arbor.status_at(key, seq) WHERE id IS NOT NULL;

CREATE INDEX session_status ON arbor.session (status, app, user_id, updated DESC, id) WHERE updated IS NOT NULL;
