-- A small shop in SQLite: what the demo and the tests close orders in. Times are text in UTC with milliseconds
-- (2026-01-31 12:00:00.123), so that they compare as text.

CREATE TABLE item (
  sku       TEXT PRIMARY KEY,
  -- Each piece is in exactly one of the three: on the shelf, promised to an unpaid order, gone with a paid one.
  available INTEGER NOT NULL CHECK (available >= 0),
  reserved  INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  sold      INTEGER NOT NULL DEFAULT 0 CHECK (sold >= 0)
) STRICT;

CREATE TABLE orders (
  id         INTEGER PRIMARY KEY,
  user_id    INTEGER NOT NULL,
  status     TEXT NOT NULL DEFAULT 'unpaid' CHECK (status IN ('unpaid', 'paid', 'closed')),
  created_at TEXT NOT NULL,
  close_at   TEXT NOT NULL,
  paid_at    TEXT,
  closed_at  TEXT
) STRICT;

-- The safety net looks for overdue unpaid orders; paid ones, which are nearly all after a while, are not in the index.
CREATE INDEX orders_unpaid ON orders (close_at, id) WHERE status = 'unpaid';

CREATE TABLE order_item (
  order_id INTEGER NOT NULL REFERENCES orders (id),
  sku      TEXT NOT NULL REFERENCES item (sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (order_id, sku)
) STRICT, WITHOUT ROWID;

-- What happened to an order, one row for each thing that can happen only once in a life.
CREATE TABLE order_log (
  order_id   INTEGER NOT NULL REFERENCES orders (id),
  action     TEXT NOT NULL,
  generation INTEGER NOT NULL,
  fence      INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  cause      TEXT NOT NULL,
  due_at     TEXT NOT NULL,
  logged_at  TEXT NOT NULL,
  UNIQUE (order_id, action, generation)
) STRICT;
