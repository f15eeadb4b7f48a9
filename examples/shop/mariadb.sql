-- The small shop of sqlite.sql, in MariaDB and MySQL. Times carry no zone here: they are of the session's.

CREATE TABLE item (
  sku       varchar(64) PRIMARY KEY,
  -- Each piece is in exactly one of the three: on the shelf, promised to an unpaid order, gone with a paid one.
  available bigint NOT NULL CHECK (available >= 0),
  reserved  bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  sold      bigint NOT NULL DEFAULT 0 CHECK (sold >= 0)
) ENGINE = InnoDB;

CREATE TABLE orders (
  id         bigint PRIMARY KEY,
  user_id    bigint NOT NULL,
  status     varchar(16) NOT NULL DEFAULT 'unpaid' CHECK (status IN ('unpaid', 'paid', 'closed')),
  created_at datetime(3) NOT NULL,
  close_at   datetime(3) NOT NULL,
  paid_at    datetime(6),
  closed_at  datetime(6),
  -- The safety net looks for overdue unpaid orders.
  KEY orders_unpaid (status, close_at, id)
) ENGINE = InnoDB;

CREATE TABLE order_item (
  order_id bigint NOT NULL,
  sku      varchar(64) NOT NULL,
  quantity int NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (order_id, sku),
  FOREIGN KEY (order_id) REFERENCES orders (id),
  FOREIGN KEY (sku) REFERENCES item (sku)
) ENGINE = InnoDB;

-- What happened to an order, one row for each thing that can happen only once in a life.
CREATE TABLE order_log (
  order_id   bigint NOT NULL,
  action     varchar(64) NOT NULL,
  generation bigint NOT NULL,
  fence      bigint NOT NULL,
  attempt    int NOT NULL,
  cause      varchar(64) NOT NULL,
  due_at     datetime(3) NOT NULL,
  logged_at  datetime(6) NOT NULL,
  UNIQUE (order_id, action, generation),
  FOREIGN KEY (order_id) REFERENCES orders (id)
) ENGINE = InnoDB;
