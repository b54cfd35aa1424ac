-- A page of a user's sessions, the last ones updated first, is a part of this index.
CREATE INDEX session_updated ON arbor.session (app, user_id, updated DESC, id) WHERE updated IS NOT NULL;
