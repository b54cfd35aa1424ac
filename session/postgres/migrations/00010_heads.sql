-- head is the id of the log's last event, and lease_fence a random number of the last lease, so that a
-- database that went back to an earlier state is noticed: positions and lease tokens come again, and these
-- do not. head is NULL until a write of this version stores events.
--
-- A program of before gets no lease any more, since it knows lease_fence by its former name.
ALTER TABLE arbor.session ADD COLUMN head bytea;
ALTER TABLE arbor.session RENAME COLUMN lease_nonce TO lease_fence;
