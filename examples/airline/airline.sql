CREATE TABLE IF NOT EXISTS flights
  (id TEXT PRIMARY KEY, origin TEXT, destination TEXT, departs TEXT, fare INTEGER, seats INTEGER);
CREATE TABLE IF NOT EXISTS bookings (id TEXT PRIMARY KEY, passenger TEXT, flight TEXT, paid INTEGER);
CREATE TABLE IF NOT EXISTS refunds (booking TEXT PRIMARY KEY, amount INTEGER);
INSERT OR IGNORE INTO flights VALUES
  ('MA101', 'Lisbon', 'Oslo', '2027-03-01 08:10', 149, 12), ('MA103', 'Lisbon', 'Oslo', '2027-03-01 17:45', 119, 1),
  ('MA205', 'Oslo', 'Vienna', '2027-03-04 11:20', 99, 30);
INSERT OR IGNORE INTO bookings VALUES ('BK7001', 'Ada Weber', 'MA101', 149), ('BK7002', 'Ivo Lund', 'MA205', 99);
