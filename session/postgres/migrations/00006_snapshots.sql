-- What follows from a session's log, so that it need not be made from it again: parts of
-- one name, in their order. seq is how far the log was. All of it can be deleted at any
-- time, which costs time and nothing else.
CREATE TABLE arbor.snapshot (
	session bigint NOT NULL REFERENCES arbor.session (key) ON DELETE CASCADE,
	name    text   COLLATE "C" NOT NULL,
	part    bigint NOT NULL,
	seq     bigint NOT NULL,
	data    bytea  NOT NULL,
	PRIMARY KEY (session, name, part)
);

ALTER TABLE arbor.snapshot ALTER COLUMN data SET STORAGE EXTERNAL;

-- A deleted session that forks share keeps its row, and none of its words but those that they share.
CREATE FUNCTION arbor.forget_snapshots() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM arbor.snapshot WHERE session = NEW.key;
	RETURN NULL;
END
$$;

CREATE TRIGGER snapshot_of_deleted AFTER UPDATE OF id ON arbor.session
	FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION arbor.forget_snapshots();
