-- A session's row. key is never used again, so that what a deleted session's
-- writer still holds can never fit a later session. A deleted session whose
-- events forks still share keeps its row, without a name.
--
-- The first parent_seq events of a fork are those of the session parent_key,
-- or of its parents in turn. fork_nonce is drawn by the call that made the fork,
-- so that it knows its own work again after a lost connection.
--
-- lease_token counts the leases of the session; the token that callers see is
-- key * 2^32 + lease_token. lease_until is NULL while nobody holds the lease, and
-- lease_nonce is what fork_nonce is, for the call that took it. created is NULL
-- until the first events come. All times are the server's.
CREATE TABLE arbor.session (
	key           bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE 2147483647) PRIMARY KEY,
	app           text COLLATE "C",
	user_id       text COLLATE "C",
	id            text COLLATE "C",
	seq           bigint NOT NULL DEFAULT 0,
	created       timestamptz,
	updated       timestamptz,
	parent_key    bigint REFERENCES arbor.session (key),
	parent_seq    bigint CHECK (parent_seq >= 0),
	fork_nonce    bigint,
	lease_token   bigint NOT NULL DEFAULT 0 CHECK (lease_token BETWEEN 0 AND 4294967295),
	lease_nonce   bigint,
	lease_host    text,
	lease_pid     bigint,
	lease_started bigint,
	lease_until   timestamptz,
	UNIQUE (app, user_id, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL)),
	CHECK ((app IS NULL) = (id IS NULL) AND (user_id IS NULL) = (id IS NULL))
) WITH (fillfactor = 70); -- every append updates a row

CREATE INDEX session_parent ON arbor.session (parent_key, parent_seq) WHERE parent_key IS NOT NULL;

-- One event a row, as the flat JSON object of package agent, byte for byte:
-- jsonb would change numbers, and take no NUL characters.
CREATE TABLE arbor.event (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	seq     bigint NOT NULL,
	json    json   NOT NULL,
	PRIMARY KEY (session, seq)
);

-- State that sessions share. scope is 'user' or 'app'; an app's state has an
-- empty user, and so may a user's. A name may hold NUL characters, and is UTF-8.
-- A value of NULL is none: names are deleted by an update, so that writers always
-- lock in the same order and never wait for each other in a circle.
CREATE TABLE arbor.state (
	app     text  COLLATE "C" NOT NULL,
	scope   text  COLLATE "C" NOT NULL CHECK (scope IN ('user', 'app')),
	user_id text  COLLATE "C" NOT NULL,
	name    bytea NOT NULL,
	value   json,
	PRIMARY KEY (app, scope, user_id, name)
);
