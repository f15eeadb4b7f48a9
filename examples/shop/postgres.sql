-- The small shop of sqlite.sql, in PostgreSQL.

CREATE TABLE item (
  sku       text PRIMARY KEY,
  -- Each piece is in exactly one of the three: on the shelf, promised to an unpaid order, gone with a paid one.
  available bigint NOT NULL CHECK (available >= 0),
  reserved  bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  sold      bigint NOT NULL DEFAULT 0 CHECK (sold >= 0)
);

CREATE TABLE orders (
  id         bigint PRIMARY KEY,
  user_id    bigint NOT NULL,
  status     text NOT NULL DEFAULT 'unpaid' CHECK (status IN ('unpaid', 'paid', 'closed')),
  created_at timestamptz NOT NULL,
  close_at   timestamptz NOT NULL,
  paid_at    timestamptz,
  closed_at  timestamptz
);

-- The safety net looks for overdue unpaid orders; paid ones, which are nearly all after a while, are not in the index.
CREATE INDEX orders_unpaid ON orders (close_at, id) WHERE status = 'unpaid';

CREATE TABLE order_item (
  order_id bigint NOT NULL REFERENCES orders (id),
  sku      text NOT NULL REFERENCES item (sku),
  quantity integer NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (order_id, sku)
);

-- What happened to an order, one row for each thing that can happen only once in a life.
CREATE TABLE order_log (
  order_id   bigint NOT NULL REFERENCES orders (id),
  action     text NOT NULL,
  generation bigint NOT NULL,
  fence      bigint NOT NULL,
  attempt    integer NOT NULL,
  cause      text NOT NULL,
  due_at     timestamptz NOT NULL,
  logged_at  timestamptz NOT NULL,
  UNIQUE (order_id, action, generation)
);
