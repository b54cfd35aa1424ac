CREATE TABLE orders (id TEXT PRIMARY KEY, date TEXT NOT NULL, item TEXT NOT NULL);
CREATE TABLE charges (id TEXT PRIMARY KEY, date TEXT NOT NULL, product TEXT NOT NULL, amount TEXT NOT NULL);
CREATE TABLE refunds (charge_id TEXT PRIMARY KEY REFERENCES charges (id), amount TEXT NOT NULL);

CREATE VIEW charge_rows AS
  SELECT product, json_object('charge_id', id, 'date', date, 'product', product, 'amount', c.amount,
    'status', CASE WHEN r.charge_id IS NULL THEN 'paid' ELSE 'refunded' END) AS row
  FROM charges c LEFT JOIN refunds r ON r.charge_id = c.id ORDER BY id;
CREATE VIEW order_rows AS
  SELECT json_object('order_id', id, 'date', date, 'item', item) AS row FROM orders ORDER BY id;

INSERT INTO orders VALUES
  ('or_501', '2026-01-08', 'Home router'),
  ('or_502', '2026-02-01', 'Pro subscription, monthly'),
  ('or_503', '2026-02-19', 'Network cable, 10 m');
INSERT INTO charges VALUES
  ('ch_1001', '2026-01-08', 'router', '89.00 EUR'),
  ('ch_1002', '2026-02-19', 'cable', '12.50 EUR'),
  ('ch_1003', '2026-03-01', 'subscription', '19.00 EUR'),
  ('ch_1004', '2026-03-01', 'subscription', '19.00 EUR');
