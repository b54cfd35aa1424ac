-- The sessions whose lease was taken and not given back: those that are under way, and those whose
-- holder has gone. They are few, so that whoever looks for them reads no others. An index on the
-- sessions would say the same, but leases would change an indexed column then, and each of their
-- updates would write to every index of the table. It begins empty: who was left behind before this
-- is not taken up because a newer program came, and the schema is up to date at once, however many
-- sessions there are. The triggers keep it for programs of before, too, which still run.
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

CREATE TRIGGER held_new AFTER INSERT ON arbor.session
	FOR EACH ROW WHEN (NEW.lease_until IS NOT NULL AND NEW.created IS NULL) EXECUTE FUNCTION arbor.note_held();

CREATE TRIGGER held_taken AFTER UPDATE OF lease_token ON arbor.session
	FOR EACH ROW WHEN (NEW.lease_until IS NOT NULL) EXECUTE FUNCTION arbor.note_held();

CREATE TRIGGER held_given_back AFTER UPDATE OF lease_until ON arbor.session
	FOR EACH ROW WHEN (NEW.lease_until IS NULL AND OLD.lease_until IS NOT NULL) EXECUTE FUNCTION arbor.note_given_back();
