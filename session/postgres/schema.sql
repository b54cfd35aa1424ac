-- A session's row. key is never used again, so that what a deleted session's writer still holds can never fit a later session. A
-- deleted session whose events forks still share keeps its row, without a name.
--
-- The first parent_seq events of a fork are those of the session parent_key, or of its parents in turn. fork_nonce is a random number
-- of the call that created the fork, so that the call recognizes its own work after a lost connection.
--
-- head is the id of the log's last event; it is NULL for a fork without events of its own. lease_token is the token of the last lease:
-- the time in microseconds, times 1000, so that tokens do not repeat after a restore. lease_random is a random number for each lease.
-- lease_until is NULL while no process holds the lease. created is NULL until the first events are stored. All times are the server's.
--
-- status is how far the last turn is: 'open', 'waiting', 'done', 'failed' or 'canceled', and '' without a turn. stop is the largest
-- position at which a request asked to stop a turn, or 0.
CREATE TABLE arbor.session (
	key           bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE 2147483647) PRIMARY KEY,
	app           text COLLATE "C",
	user_id       text COLLATE "C",
	id            text COLLATE "C",
	seq           bigint NOT NULL DEFAULT 0,
	head          bytea,
	created       timestamptz,
	updated       timestamptz,
	parent_key    bigint REFERENCES arbor.session (key),
	parent_seq    bigint CHECK (parent_seq >= 0),
	fork_nonce    bigint,
	lease_token   bigint NOT NULL DEFAULT 0,
	lease_random  bigint,
	lease_host    text,
	lease_pid     bigint,
	lease_started bigint,
	lease_until   timestamptz,
	status        text COLLATE "C" NOT NULL DEFAULT '',
	stop          bigint NOT NULL DEFAULT 0,
	UNIQUE (app, user_id, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL)),
	CHECK ((app IS NULL) = (id IS NULL) AND (user_id IS NULL) = (id IS NULL))
) WITH (fillfactor = 70); -- every append updates a row

CREATE INDEX session_parent ON arbor.session (parent_key, parent_seq) WHERE parent_key IS NOT NULL;

-- A page of a user's sessions, the ones updated last first, is a part of this index.
CREATE INDEX session_updated ON arbor.session (app, user_id, updated DESC, id) WHERE updated IS NOT NULL;

-- A page of the sessions that have one status, of all users or of one, is a part of this index.
CREATE INDEX session_status ON arbor.session (status, app, user_id, updated DESC, id) WHERE updated IS NOT NULL;

-- A row is an event: a line of nine words and a JSON object, which is about half as long as its whole JSON; see event.Line. An event
-- that has no line is whole JSON.
CREATE TABLE arbor.log (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	seq     bigint NOT NULL,
	line    text   COLLATE "C" NOT NULL,
	PRIMARY KEY (session, seq)
);

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

-- The events as the flat JSON objects of docs/events.md, byte for byte except for NUL, for queries. PostgreSQL's text cannot hold
-- NUL, and one event with an escaped NUL would end every query that looks into json with an error. It is shown as U+FFFD.
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
		CASE WHEN line ~ '^[a-z][^ {]*( [^ {]*){8} {' THEN string_to_array(left(line, position('{' IN line) - 2), ' ') END AS w
		FROM (SELECT session, seq, CASE WHEN position(E'\\u0000' IN line) = 0 THEN line
			ELSE regexp_replace(line, E'(?<!\\\\)((\\\\\\\\)*)\\\\u0000', E'\\1\\\\ufffd', 'g') END AS line FROM arbor.log) AS kept) AS lines;

-- State that sessions share. scope is 'user' or 'app'. An app's state has an empty user, and so may a user's. A name may contain NUL
-- characters, and is UTF-8. A value of NULL is no value: names are deleted by an update, so that writers always lock in the same order
-- and never wait for each other in a circle.
CREATE TABLE arbor.state (
	app     text  COLLATE "C" NOT NULL,
	scope   text  COLLATE "C" NOT NULL CHECK (scope IN ('user', 'app')),
	user_id text  COLLATE "C" NOT NULL,
	name    bytea NOT NULL,
	value   json,
	PRIMARY KEY (app, scope, user_id, name)
);

-- The bytes of files: digest is "sha256:" and 64 hexadecimal digits. seq is the length of the log when they were stored. The events
-- that name them come after it, so a fork that shares more events than that shares the bytes.
CREATE TABLE arbor.blob (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	digest  text   COLLATE "C" NOT NULL,
	seq     bigint NOT NULL,
	data    bytea  NOT NULL,
	PRIMARY KEY (session, digest)
);

-- Files are mostly compressed already.
ALTER TABLE arbor.blob ALTER COLUMN data SET STORAGE EXTERNAL;

-- Values that were computed from a session's log, in parts. seq is the length of the log then. Rows can be deleted at any time.
CREATE TABLE arbor.snapshot (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	name    text   COLLATE "C" NOT NULL,
	part    bigint NOT NULL,
	seq     bigint NOT NULL,
	data    bytea  NOT NULL,
	PRIMARY KEY (session, name, part)
);

ALTER TABLE arbor.snapshot ALTER COLUMN data SET STORAGE EXTERNAL;

-- The row of a deleted session may stay for its forks, but its snapshots do not.
CREATE FUNCTION arbor.forget_snapshots() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM arbor.snapshot WHERE session = NEW.key;
	RETURN NULL;
END
$$;

CREATE TRIGGER snapshot_of_deleted AFTER UPDATE OF id ON arbor.session
	FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION arbor.forget_snapshots();

-- The sessions whose lease was not released. They are few, so a search for orphans reads no other sessions. An index on the sessions
-- would do the same, but leases would then change an indexed column, and each of their updates would write to every index of the table.
CREATE TABLE arbor.held (
	session bigint PRIMARY KEY
);

CREATE FUNCTION arbor.note_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO arbor.held (session) VALUES (NEW.key) ON CONFLICT DO NOTHING;
	RETURN NULL;
END
$$;

CREATE FUNCTION arbor.note_given_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM arbor.held WHERE session = NEW.key;
	RETURN NULL;
END
$$;

CREATE TRIGGER held_taken AFTER UPDATE OF lease_token ON arbor.session
	FOR EACH ROW WHEN (NEW.lease_until IS NOT NULL) EXECUTE FUNCTION arbor.note_held();

CREATE TRIGGER held_given_back AFTER UPDATE OF lease_until ON arbor.session
	FOR EACH ROW WHEN (NEW.lease_until IS NULL AND OLD.lease_until IS NOT NULL) EXECUTE FUNCTION arbor.note_given_back();

-- One row a block: what a user said, or one run of an agent. It is derived from the events, and
-- written with them. A block of a deleted session stays as long as a fork shares its first event.
--
-- parent_block_id is the block that caused this one: the one that a user or an agent answers, that
-- transferred, or that holds the tool call whose agent this is. It is in this session or in those that
-- it is a fork of, and NULL for the first block of all.
--
-- message_id is the message that the block is a part of: what a user said, or the whole answer to it,
-- named after its first block. parent_message_id is the message that this one replies to.
--
-- last_seq and completed are the event that ended the run, NULL while it runs.
CREATE TABLE arbor.block (
	session           bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	id                text   COLLATE "C" NOT NULL, -- the run's id
	parent_block_id   text   COLLATE "C",
	message_id        text   COLLATE "C" NOT NULL,
	parent_message_id text   COLLATE "C",
	role              text   NOT NULL CHECK (role IN ('user', 'agent')),
	agent             text   COLLATE "C", -- NULL for a user
	scope             text   COLLATE "C", -- NULL for the conversation itself
	turn_id           text   COLLATE "C",
	first_seq         bigint NOT NULL,
	last_seq          bigint,
	completed         timestamptz,
	PRIMARY KEY (session, id),
	CHECK ((last_seq IS NULL) = (completed IS NULL))
);

-- A block begins a message if it is a user's, if it hangs on a user's, or if it hangs on nothing. Any
-- other block is a part of the message that it hangs on. The function sees the blocks that the same
-- statement inserted before.
CREATE FUNCTION arbor.join_message() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	line bigint := NEW.session; -- the session, and then those that it is a fork of
	upto bigint := NEW.first_seq;
	above record;
BEGIN
	NEW.message_id := NEW.id;
	WHILE NEW.parent_block_id IS NOT NULL AND line IS NOT NULL LOOP
		SELECT role, message_id, parent_message_id INTO above FROM arbor.block
			WHERE session = line AND id = NEW.parent_block_id AND first_seq <= upto;
		IF NOT FOUND THEN
			SELECT parent_key, least(upto, parent_seq) INTO line, upto FROM arbor.session WHERE key = line;
		ELSIF NEW.role = 'user' OR above.role = 'user' THEN
			NEW.parent_message_id := above.message_id;
			EXIT;
		ELSE
			NEW.message_id := above.message_id;
			NEW.parent_message_id := above.parent_message_id;
			EXIT;
		END IF;
	END LOOP;
	RETURN NEW;
END
$$;

CREATE TRIGGER block_in_message BEFORE INSERT ON arbor.block FOR EACH ROW EXECUTE FUNCTION arbor.join_message();

CREATE INDEX block_parent_message ON arbor.block (parent_message_id, session);

-- One row a message, made of the blocks that the session has of it: a fork that was taken in the middle
-- of an answer has the rest of that answer. Two messages with one parent are alternatives: a question
-- that was edited, an answer that was generated again.
CREATE VIEW arbor.message AS
	SELECT session, message_id AS id, parent_message_id, role, min(turn_id) AS turn_id, min(first_seq) AS first_seq,
		CASE WHEN bool_and(last_seq IS NOT NULL) THEN max(last_seq) END AS last_seq,
		CASE WHEN bool_and(last_seq IS NOT NULL) THEN max(completed) END AS completed
	FROM arbor.block GROUP BY session, message_id, parent_message_id, role;
