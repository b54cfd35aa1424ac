-- stop is the largest position at which a request asked to stop a turn, or 0.
ALTER TABLE session ADD COLUMN stop INTEGER NOT NULL DEFAULT 0;
