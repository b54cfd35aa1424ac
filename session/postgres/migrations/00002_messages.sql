-- One row a message: what a user said, or one run of an agent. It is derived from
-- the events, and written with them. A message of a deleted session stays as long
-- as a fork shares its first event.
--
-- parent_message_id is the message that caused this one: the one that a user
-- answers, that an agent answers, that handed over, or that holds the tool call
-- whose agent this is. It is in this session or in those that it is a fork of, and
-- NULL for the first message of all. Two messages with one parent are two ways on:
-- a question asked anew in a fork, two agents called at once.
--
-- last_seq and completed are the event that ended the run, NULL while it runs.
CREATE TABLE arbor.message (
	session           bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	id                text   COLLATE "C" NOT NULL, -- the run's id
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

CREATE INDEX message_parent ON arbor.message (parent_message_id, session);
