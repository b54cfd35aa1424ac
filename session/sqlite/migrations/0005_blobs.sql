-- The bytes of files, by what they are: digest is "sha256:" and 64 hexadecimal digits.
-- seq is where the log was when they were put, so that the events that name them come
-- after it: a fork that shares more events than that shares the bytes.
CREATE TABLE blob (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	digest  TEXT    NOT NULL,
	seq     INTEGER NOT NULL,
	data    BLOB    NOT NULL,
	UNIQUE (session, digest)
) STRICT;
