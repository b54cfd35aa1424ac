-- The version of the schema. A program of another version does not use the file.
CREATE TABLE schema_version (
	version INTEGER PRIMARY KEY,
	name    TEXT NOT NULL
) STRICT;

INSERT INTO schema_version VALUES (12, 'schema.sql');

-- It marks a database of this program: "Arbo" in ASCII.
PRAGMA application_id = 0x4172626f;

-- A session's row. key is never used again, so that what a deleted session's writer still holds can never fit a later session.
--
-- The first parent_seq events of a fork are those of its parent, whose own log contains the last of them. So a fork's own events
-- are those after parent_seq, and parent_seq is greater than the parent's own, except for a fork that shares nothing with a session
-- that is no fork. seq counts all events, including the shared ones.
--
-- A row without app, user and id is a deleted session. It is kept for the events that its forks share, has no other events, and is
-- deleted with the last of its forks. Its seq is 0.
--
-- head is the id of the log's last event; it is NULL for a fork without events of its own. token is the token of the last lease: the
-- time in nanoseconds, so that tokens do not repeat after a restore. lease_nonce is a random number for each lease. lease_until is
-- NULL while no process holds the lease. Times are nanoseconds since 1970 by the store's clock; created and updated are NULL until
-- the first events are stored, or the session is created as a fork.
--
-- status is how far the last turn is: 'open', 'waiting', 'done', 'failed' or 'canceled', and '' without a turn. stop is the largest
-- position at which a request asked to stop a turn, or 0.
CREATE TABLE session (
	key           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (key < 2147483648),
	app           TEXT,
	user          TEXT,
	id            TEXT,
	seq           INTEGER NOT NULL DEFAULT 0,
	head          TEXT,
	created       INTEGER,
	updated       INTEGER,
	parent_key    INTEGER REFERENCES session (key),
	parent_seq    INTEGER,
	token         INTEGER NOT NULL DEFAULT 0,
	lease_nonce   INTEGER NOT NULL DEFAULT 0,
	lease_host    TEXT,
	lease_pid     INTEGER,
	lease_started INTEGER,
	lease_until   INTEGER,
	status        TEXT    NOT NULL DEFAULT '',
	stop          INTEGER NOT NULL DEFAULT 0,
	UNIQUE (app, user, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL)),
	CHECK ((app IS NULL) = (id IS NULL) AND (user IS NULL) = (id IS NULL))
) STRICT;

CREATE INDEX session_parent ON session (parent_key, parent_seq) WHERE parent_key IS NOT NULL;

-- A page of a user's sessions, the ones updated last first, is a part of this index.
CREATE INDEX session_updated ON session (app, user, updated DESC, id) WHERE updated IS NOT NULL;

-- A page of the sessions that have one status, of all users or of one, is a part of this index.
CREATE INDEX session_status ON session (status, app, user, updated DESC, id) WHERE updated IS NOT NULL;

-- A row is an event: a line of nine words and a JSON object, which is about half as long as its whole JSON; see event.Line. An event
-- that has no line is whole JSON.
CREATE TABLE log (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	seq     INTEGER NOT NULL,
	line    TEXT    NOT NULL,
	PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- The events as the flat JSON objects of docs/events.md, byte for byte, for queries.
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

-- The events that change the status: those of the conversation itself that begin or end a turn or a run. Read back from a
-- position, the first one of them says the status at that position. What cannot be read changes nothing.
CREATE VIEW turning (session, seq, status) AS
	SELECT session, seq, CASE WHEN type <> 'harness_end' THEN 'open' ELSE CASE reason WHEN 'transfer' THEN 'open' WHEN 'input_required' THEN 'waiting'
		WHEN 'canceled' THEN 'canceled' WHEN 'error' THEN 'failed' WHEN 'limit' THEN 'failed' ELSE 'done' END END
	FROM (SELECT l.session, l.seq, e.json ->> '$.type' AS type, e.json ->> '$.scope' AS scope, e.json ->> '$.finishReason' AS reason
		FROM log l CROSS JOIN event e ON e.session = l.session AND e.seq = l.seq
		WHERE (l.line GLOB 'user *' OR l.line GLOB 'harness_*' OR l.line GLOB '{*') AND json_valid(e.json))
	WHERE type IN ('user', 'harness_start', 'harness_end') AND scope IS NULL;

-- State that sessions share, as JSON. scope is 'user' or 'app'. An app's state has an empty user, and so may a user's.
CREATE TABLE state (
	app   TEXT NOT NULL,
	scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
	user  TEXT NOT NULL,
	name  TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (app, scope, user, name)
) STRICT, WITHOUT ROWID;

-- The bytes of files: digest is "sha256:" and 64 hexadecimal digits. seq is the length of the log when they were stored. The events
-- that name them come after it, so a fork that shares more events than that shares the bytes.
CREATE TABLE blob (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	digest  TEXT    NOT NULL,
	seq     INTEGER NOT NULL,
	data    BLOB    NOT NULL,
	UNIQUE (session, digest)
) STRICT;

-- Values that were computed from a session's log, in parts. seq is the length of the log then. Rows can be deleted at any time.
CREATE TABLE snapshot (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	name    TEXT    NOT NULL,
	part    INTEGER NOT NULL,
	seq     INTEGER NOT NULL,
	data    BLOB    NOT NULL,
	UNIQUE (session, name, part)
) STRICT;

-- The row of a deleted session may stay for its forks, but its snapshots do not.
CREATE TRIGGER snapshot_of_deleted AFTER UPDATE OF id ON session WHEN NEW.id IS NULL BEGIN
	DELETE FROM snapshot WHERE session = NEW.key;
END;

-- The sessions whose lease was not released. They are few, so a search for orphans reads no other sessions.
CREATE TABLE held (
	session INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER held_taken AFTER UPDATE OF token ON session WHEN NEW.lease_until IS NOT NULL AND NEW.token <> OLD.token BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END;

CREATE TRIGGER held_given_back AFTER UPDATE OF lease_until ON session WHEN NEW.lease_until IS NULL AND OLD.lease_until IS NOT NULL BEGIN
	DELETE FROM held WHERE session = NEW.key;
END;
