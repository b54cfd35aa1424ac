-- stop is the largest position at which a request asked to stop a turn, or 0.
ALTER TABLE arbor.session ADD COLUMN stop bigint NOT NULL DEFAULT 0;
