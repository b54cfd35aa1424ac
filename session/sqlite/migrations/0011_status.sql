-- status is how far the last turn is: 'open', 'waiting', 'done', 'failed' or 'canceled', and '' without a turn. A page of the
-- sessions that have one status, of all users or of one, is a part of the index.
--
-- token is the token of the last lease, and takes the place of lease. That column stays because a program of before names it, which
-- has the file open and would not keep the status: its next write fails, and the trigger tells it why.
ALTER TABLE session ADD COLUMN status TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN token INTEGER NOT NULL DEFAULT 0;

-- The events that change the status: those of the conversation itself that begin or end a turn or a run. Read back from a
-- position, the first one of them says the status at that position. What cannot be read changes nothing.
CREATE VIEW turning (session, seq, status) AS
	SELECT session, seq, CASE WHEN type <> 'harness_end' THEN 'open' ELSE CASE reason WHEN 'transfer' THEN 'open' WHEN 'input_required' THEN 'waiting'
		WHEN 'canceled' THEN 'canceled' WHEN 'error' THEN 'failed' WHEN 'limit' THEN 'failed' ELSE 'done' END END
	FROM (SELECT l.session, l.seq, e.json ->> '$.type' AS type, e.json ->> '$.scope' AS scope, e.json ->> '$.finishReason' AS reason
		FROM log l CROSS JOIN event e ON e.session = l.session AND e.seq = l.seq
		WHERE (l.line GLOB 'user *' OR l.line GLOB 'harness_*' OR l.line GLOB '{*') AND json_valid(e.json))
	WHERE type IN ('user', 'harness_start', 'harness_end') AND scope IS NULL;

-- The rows of deleted sessions that forks share have neither.
UPDATE session SET token = lease, status = coalesce((
	WITH RECURSIVE line (key, upto, status) AS (
		SELECT session.key, session.seq, NULL
		UNION ALL
		SELECT s.parent_key, min(line.upto, s.parent_seq),
			(SELECT t.status FROM turning t WHERE t.session = line.key AND t.seq <= line.upto ORDER BY t.seq DESC LIMIT 1)
		FROM line CROSS JOIN session s ON s.key = line.key WHERE line.status IS NULL)
	SELECT status FROM line WHERE status IS NOT NULL), '')
WHERE id IS NOT NULL;

CREATE TRIGGER session_lease_of_schema_10 BEFORE UPDATE OF lease ON session BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;

DROP TRIGGER held_taken;
CREATE TRIGGER held_taken AFTER UPDATE OF token ON session WHEN NEW.lease_until IS NOT NULL AND NEW.token <> OLD.token BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;

CREATE INDEX session_status ON session (status, app, user, updated DESC, id) WHERE updated IS NOT NULL;
