-- The bytes of files, by what they are: digest is "sha256:" and 64 hexadecimal digits.
-- seq is where the log was when they were put, so that the events that name them come
-- after it: a fork that shares more events than that shares the bytes.
CREATE TABLE arbor.blob (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	digest  text   COLLATE "C" NOT NULL,
	seq     bigint NOT NULL,
	data    bytea  NOT NULL,
	PRIMARY KEY (session, digest)
);

-- Files are mostly compressed already.
ALTER TABLE arbor.blob ALTER COLUMN data SET STORAGE EXTERNAL;
