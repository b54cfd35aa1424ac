LOCK TABLE arbor.session, arbor.message IN EXCLUSIVE MODE;

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

-- A fork's session has a larger key than the one that it shares events with.
INSERT INTO arbor.block (session, id, parent_block_id, role, agent, scope, turn_id, first_seq, last_seq, completed)
	SELECT session, id, parent_message_id, role, agent, scope, turn_id, first_seq, last_seq, completed FROM arbor.message
	ORDER BY session, first_seq, id;

CREATE INDEX block_parent_message ON arbor.block (parent_message_id, session);

-- Programs of an older version that still run insert into this table, so their appends fail from now on.
DROP TABLE arbor.message;

-- One row a message, made of the blocks that the session has of it: a fork that was taken in the middle
-- of an answer has the rest of that answer. Two messages with one parent are alternatives: a question
-- that was edited, an answer that was generated again.
CREATE VIEW arbor.message AS
	SELECT session, message_id AS id, parent_message_id, role, min(turn_id) AS turn_id, min(first_seq) AS first_seq,
		CASE WHEN bool_and(last_seq IS NOT NULL) THEN max(last_seq) END AS last_seq,
		CASE WHEN bool_and(last_seq IS NOT NULL) THEN max(completed) END AS completed
	FROM arbor.block GROUP BY session, message_id, parent_message_id, role;
