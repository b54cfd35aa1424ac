PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
INSERT INTO schema_version VALUES(1,'0001_sessions.sql');
INSERT INTO schema_version VALUES(2,'0002_forks.sql');
INSERT INTO schema_version VALUES(3,'0003_lists.sql');
CREATE TABLE event (
	session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	seq     INTEGER NOT NULL,
	json    TEXT    NOT NULL,
	PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO event VALUES(1,1,'{"seq":1,"id":"story-4","turnId":"story-1","runId":"story-2","type":"user","agent":"user","time":"2026-03-01T12:00:00.001Z","content":"I was charged twice"}');
INSERT INTO event VALUES(1,2,'{"seq":2,"id":"story-5","turnId":"story-1","runId":"story-3","parentId":"story-2:user","type":"harness_start","agent":"support","path":"support","time":"2026-03-01T12:00:00.001Z","agentId":"support"}');
INSERT INTO event VALUES(1,3,'{"seq":3,"id":"story-6","turnId":"story-1","runId":"story-3","type":"text","agent":"support","path":"support","time":"2026-03-01T12:00:00.004Z","content":"One moment."}');
INSERT INTO event VALUES(1,4,'{"seq":4,"id":"k1","turnId":"story-1","runId":"story-3","type":"tool_call","agent":"support","path":"support","time":"2026-03-01T12:00:00.004Z","name":"lookup","input":{"id":1}}');
INSERT INTO event VALUES(1,5,'{"seq":5,"id":"story-7","turnId":"story-1","runId":"story-3","type":"usage","agent":"support","path":"support","time":"2026-03-01T12:00:00.004Z","inputTokens":0,"outputTokens":0,"model":"support"}');
INSERT INTO event VALUES(1,6,'{"seq":6,"id":"k1","turnId":"story-1","runId":"story-3","type":"tool_result","agent":"support","path":"support","time":"2026-03-01T12:00:00.005Z","name":"lookup","output":"two charges"}');
INSERT INTO event VALUES(1,7,'{"seq":7,"id":"k2","turnId":"story-1","runId":"story-3","type":"tool_call","agent":"support","path":"support","time":"2026-03-01T12:00:00.006Z","name":"ask_expert","input":{"input":"Is it right?"}}');
INSERT INTO event VALUES(1,8,'{"seq":8,"id":"story-8","turnId":"story-1","runId":"story-3","type":"usage","agent":"support","path":"support","time":"2026-03-01T12:00:00.006Z","inputTokens":0,"outputTokens":0,"model":"support"}');
INSERT INTO event VALUES(1,9,'{"seq":9,"id":"story-11","turnId":"story-1","runId":"story-10","scope":"story-9","parentId":"k2","type":"harness_start","agent":"expert","path":"expert","time":"2026-03-01T12:00:00.007Z","agentId":"expert","input":"Is it right?"}');
INSERT INTO event VALUES(1,10,'{"seq":10,"id":"story-12","turnId":"story-1","runId":"story-10","scope":"story-9","type":"reasoning","agent":"expert","path":"expert","time":"2026-03-01T12:00:00.012Z","content":"Let me see."}');
INSERT INTO event VALUES(1,11,'{"seq":11,"id":"story-13","turnId":"story-1","runId":"story-10","scope":"story-9","type":"text","agent":"expert","path":"expert","time":"2026-03-01T12:00:00.012Z","content":"It is."}');
INSERT INTO event VALUES(1,12,'{"seq":12,"id":"story-14","turnId":"story-1","runId":"story-10","scope":"story-9","type":"usage","agent":"expert","path":"expert","time":"2026-03-01T12:00:00.012Z","inputTokens":0,"outputTokens":0,"model":"expert"}');
INSERT INTO event VALUES(1,13,'{"seq":13,"id":"story-15","turnId":"story-1","runId":"story-10","scope":"story-9","type":"harness_end","agent":"expert","path":"expert","time":"2026-03-01T12:00:00.012Z","agentId":"expert","finishReason":"stop"}');
INSERT INTO event VALUES(1,14,'{"seq":14,"id":"k2","turnId":"story-1","runId":"story-3","type":"tool_result","agent":"support","path":"support","time":"2026-03-01T12:00:00.013Z","name":"ask_expert","output":"It is."}');
INSERT INTO event VALUES(1,15,'{"seq":15,"id":"story-17","turnId":"story-1","runId":"story-3","type":"discard","agent":"support","path":"support","time":"2026-03-01T12:00:00.015Z","code":"truncated","message":"model call failed (truncated): the answer ended before its terminal signal","ids":["story-16"]}');
INSERT INTO event VALUES(1,16,'{"seq":16,"id":"k3","turnId":"story-1","runId":"story-3","type":"tool_call","agent":"support","path":"support","time":"2026-03-01T12:00:00.016Z","name":"transfer_to_agent","input":{"agent_name":"billing"}}');
INSERT INTO event VALUES(1,17,'{"seq":17,"id":"story-18","turnId":"story-1","runId":"story-3","type":"usage","agent":"support","path":"support","time":"2026-03-01T12:00:00.016Z","inputTokens":0,"outputTokens":0,"model":"support"}');
INSERT INTO event VALUES(1,18,'{"seq":18,"id":"k3","turnId":"story-1","runId":"story-3","type":"tool_result","agent":"support","path":"support","time":"2026-03-01T12:00:00.017Z","name":"transfer_to_agent","output":"Transferred to billing."}');
INSERT INTO event VALUES(1,19,'{"seq":19,"id":"story-19","turnId":"story-1","runId":"story-3","type":"transfer","agent":"support","path":"support","time":"2026-03-01T12:00:00.017Z","from":"support","to":"billing","toolCallId":"k3","outcome":"committed"}');
INSERT INTO event VALUES(1,20,'{"seq":20,"id":"story-20","turnId":"story-1","runId":"story-3","type":"harness_end","agent":"support","path":"support","time":"2026-03-01T12:00:00.017Z","agentId":"support","finishReason":"transfer","target":"billing"}');
INSERT INTO event VALUES(1,21,'{"seq":21,"id":"story-22","turnId":"story-1","runId":"story-21","parentId":"story-3:harness_end","type":"harness_start","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.018Z","agentId":"billing"}');
INSERT INTO event VALUES(1,22,'{"seq":22,"id":"story-23","turnId":"story-1","runId":"story-21","type":"text","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.021Z","content":"Your money comes back."}');
INSERT INTO event VALUES(1,23,'{"seq":23,"id":"story-24","turnId":"story-1","runId":"story-21","type":"usage","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.021Z","inputTokens":0,"outputTokens":0,"model":"billing"}');
INSERT INTO event VALUES(1,24,'{"seq":24,"id":"story-25","turnId":"story-1","runId":"story-21","type":"harness_end","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.021Z","agentId":"billing","finishReason":"stop"}');
INSERT INTO event VALUES(1,25,'{"seq":25,"id":"story-29","turnId":"story-26","runId":"story-27","parentId":"story-21:harness_end","type":"user","agent":"user","time":"2026-03-01T12:00:00.022Z","content":"Thanks"}');
INSERT INTO event VALUES(1,26,'{"seq":26,"id":"story-30","turnId":"story-26","runId":"story-28","parentId":"story-27:user","type":"harness_start","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.022Z","agentId":"billing"}');
INSERT INTO event VALUES(1,27,'{"seq":27,"id":"story-31","turnId":"story-26","runId":"story-28","type":"text","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.025Z","content":"You are welcome."}');
INSERT INTO event VALUES(1,28,'{"seq":28,"id":"story-32","turnId":"story-26","runId":"story-28","type":"usage","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.025Z","inputTokens":0,"outputTokens":0,"model":"billing"}');
INSERT INTO event VALUES(1,29,'{"seq":29,"id":"story-33","turnId":"story-26","runId":"story-28","type":"harness_end","agent":"billing","path":"support/billing","time":"2026-03-01T12:00:00.025Z","agentId":"billing","finishReason":"stop"}');
INSERT INTO event VALUES(2,1,'{"seq":1,"id":"e1","turnId":"t1","runId":"r1","type":"text","agent":"billing","path":"support/billing","time":"2027-01-15T08:00:00.000000001Z","content":"I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."}');
INSERT INTO event VALUES(2,2,'{"seq":2,"id":"e2","turnId":"t1","runId":"r1","type":"text","agent":"billing","path":"support/billing","time":"2027-01-15T08:00:00.000000002Z","content":"I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."}');
INSERT INTO event VALUES(2,3,'{"seq":3,"id":"e3","turnId":"t1","runId":"r1","type":"text","agent":"billing","path":"support/billing","time":"2027-01-15T08:00:00.000000003Z","content":"I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."}');
INSERT INTO event VALUES(2,4,'{"seq":4,"id":"e4","turnId":"t1","runId":"r1","type":"text","agent":"billing","path":"support/billing","time":"2027-01-15T08:00:00.000000004Z","content":"I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."}');
INSERT INTO event VALUES(3,25,'{"seq":25,"id":"edited","turnId":"edited","runId":"edited","type":"user","agent":"user","time":"2026-03-01T12:00:00.123456789Z","content":"No thanks"}');
INSERT INTO event VALUES(5,1,'{"seq":1,"id":"odd1","runId":"before","type":"text","agent":"agent-of-before","time":"2027-01-15T08:00:00.000000001Z","content":"said by before"}');
INSERT INTO event VALUES(5,2,'{"seq":2,"id":"odd2","turnId":"u1","runId":"u1","type":"user","agent":"agent-of-u1","time":"2027-01-15T08:00:00.000000002Z","content":"Hi"}');
INSERT INTO event VALUES(5,3,'{"seq":3,"id":"odd3","turnId":"u1","runId":"a","parentId":"u1:user","type":"harness_start","agent":"agent-of-a","time":"2027-01-15T08:00:00.000000003Z","agentId":"x"}');
INSERT INTO event VALUES(5,4,'{"seq":4,"id":"block","turnId":"u1","runId":"a","type":"text","agent":"agent-of-a","time":"2027-01-15T08:00:00.000000004Z","content":"said by a"}');
INSERT INTO event VALUES(5,5,'{"seq":5,"id":"call","turnId":"u1","runId":"a","type":"tool_call","agent":"agent-of-a","time":"2027-01-15T08:00:00.000000005Z","name":"f","input":{}}');
INSERT INTO event VALUES(5,6,'{"seq":6,"id":"odd6","turnId":"u1","runId":"a","type":"usage","agent":"agent-of-a","time":"2027-01-15T08:00:00.000000006Z","inputTokens":0,"outputTokens":0}');
INSERT INTO event VALUES(5,7,'{"seq":7,"id":"odd7","turnId":"u1","runId":"by-call","parentId":"call","type":"harness_start","agent":"agent-of-by-call","time":"2027-01-15T08:00:00.000000007Z","agentId":"x"}');
INSERT INTO event VALUES(5,8,'{"seq":8,"id":"odd8","turnId":"u1","runId":"by-call","type":"harness_end","agent":"agent-of-by-call","time":"2027-01-15T08:00:00.000000008Z","agentId":"x","finishReason":"stop"}');
INSERT INTO event VALUES(5,9,'{"seq":9,"id":"state","turnId":"u1","runId":"a","type":"state","agent":"a","time":"2026-03-01T12:00:00.123456789Z","delta":{"app:n":7,"user:name":"Ann"}}');
CREATE TABLE state (
	app   TEXT NOT NULL,
	scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
	user  TEXT NOT NULL,
	name  TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (app, scope, user, name)
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES('shop','app','','app:n','7');
INSERT INTO state VALUES('shop','user','ann','user:name','"Ann"');
CREATE TABLE IF NOT EXISTS "session" (
	key           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (key < 2147483648),
	app           TEXT,
	user          TEXT,
	id            TEXT,
	seq           INTEGER NOT NULL DEFAULT 0,
	created       INTEGER,
	updated       INTEGER,
	parent_key    INTEGER REFERENCES session (key),
	parent_seq    INTEGER,
	lease_token   INTEGER NOT NULL DEFAULT 0 CHECK (lease_token BETWEEN 0 AND 4294967295),
	lease_host    TEXT,
	lease_pid     INTEGER,
	lease_started INTEGER,
	lease_until   INTEGER,
	lease_expires INTEGER,
	UNIQUE (app, user, id),
	CHECK ((parent_key IS NULL) = (parent_seq IS NULL)),
	CHECK ((app IS NULL) = (id IS NULL) AND (user IS NULL) = (id IS NULL))
) STRICT;
INSERT INTO session VALUES(1,'app','local','story',29,1772366400123456789,1772366400123456789,NULL,NULL,2,'vm#9e490bf8',25019,3069746,NULL,NULL);
INSERT INTO session VALUES(2,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO session VALUES(3,'app','local','fork',25,1772366400123456789,1772366400123456789,1,24,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO session VALUES(4,'app','local','orphan',4,1772366400123456789,1772366400123456789,2,4,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO session VALUES(5,'shop','ann','held',9,1772366400123456789,1772366400123456789,NULL,NULL,1,'another.example',7,3,1772366415123456789,NULL);
CREATE TABLE message (
	session           INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
	id                TEXT    NOT NULL,
	parent_message_id TEXT,
	role              TEXT    NOT NULL CHECK (role IN ('user', 'agent')),
	agent             TEXT,
	scope             TEXT,
	turn_id           TEXT,
	first_seq         INTEGER NOT NULL,
	last_seq          INTEGER,
	completed         INTEGER NOT NULL CHECK (completed IN (0, 1)),
	PRIMARY KEY (session, id),
	CHECK (completed = (last_seq IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO message VALUES(1,'story-10','story-3','agent','expert','story-9','story-1',9,13,1);
INSERT INTO message VALUES(1,'story-2',NULL,'user',NULL,NULL,'story-1',1,1,1);
INSERT INTO message VALUES(1,'story-21','story-3','agent','billing',NULL,'story-1',21,24,1);
INSERT INTO message VALUES(1,'story-27','story-21','user',NULL,NULL,'story-26',25,25,1);
INSERT INTO message VALUES(1,'story-28','story-27','agent','billing',NULL,'story-26',26,29,1);
INSERT INTO message VALUES(1,'story-3','story-2','agent','support',NULL,'story-1',2,20,1);
INSERT INTO message VALUES(3,'edited',NULL,'user',NULL,NULL,'edited',25,25,1);
INSERT INTO message VALUES(5,'a','u1','agent','agent-of-a',NULL,'u1',3,NULL,0);
INSERT INTO message VALUES(5,'by-call','a','agent','agent-of-by-call',NULL,'u1',7,8,1);
INSERT INTO message VALUES(5,'u1',NULL,'user',NULL,NULL,'u1',2,2,1);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('session',5);
CREATE INDEX session_parent ON session (parent_key, parent_seq) WHERE parent_key IS NOT NULL;
CREATE TRIGGER session_lease_of_schema_1 BEFORE UPDATE OF lease_expires ON session BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;
CREATE TRIGGER session_of_schema_1 BEFORE INSERT ON session WHEN NEW.lease_expires IS NOT NULL BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;
CREATE TRIGGER session_delete_of_schema_1 BEFORE DELETE ON session WHEN OLD.id IS NOT NULL BEGIN
	SELECT RAISE(ABORT, 'a newer version of this program has brought the file up to date: end this one, and start the newer version');
END;
CREATE INDEX session_updated ON session (app, user, updated DESC, id) WHERE updated IS NOT NULL;
COMMIT;
