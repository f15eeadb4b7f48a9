import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A small shop that has its unpaid orders closed by duewheel. Its orders are in memory; in a real one the same steps run in the database.
 *
 * <pre>
 * javac -d classes *.java
 * SHOP_DUEWHEEL=http://127.0.0.1:8480 SHOP_TOKEN=... SHOP_WEBHOOK_SECRET=whsec_... java -cp classes Shop 127.0.0.1:8088
 *
 * curl -X PUT   127.0.0.1:8088/orders/A17    # an order, unpaid; duewheel is told
 * curl -X PATCH 127.0.0.1:8088/orders/A17    # the payment; duewheel is told
 * curl          127.0.0.1:8088/orders        # all of them
 * </pre>
 */
public final class Shop {
    /** What the shop knows of an order: its status, the highest fence that was seen, and which call closed it. */
    private static final class Row {
        String status = "unpaid";
        long fence;
        String closedBy;
    }

    private record Answer(int status, String json) {}

    private final Map<String, Row> orders = new TreeMap<>();
    private final Duewheel duewheel;
    private final Duewheel.Verifier verifier;
    private final Duration window;

    private Shop(Duewheel duewheel, Duewheel.Verifier verifier, Duration window) {
        this.duewheel = duewheel;
        this.verifier = verifier;
        this.window = window;
    }

    private Answer place(String order) throws InterruptedException {
        // First the order, then its deadline: a crash in between leaves an order that a sweep finds, never a deadline without one.
        // The moment is the order's own, so that a repeated call means the same one.
        Instant closeAt = Instant.now().plus(window);
        synchronized (orders) {
            orders.put(order, new Row());
        }
        try {
            duewheel.enqueue(order, closeAt, "{\"shop\":\"java\"}");
        } catch (IOException | Duewheel.Refused e) {
            return new Answer(503, "{\"status\":\"unpaid\",\"deadline\":" + quoted(e.toString()) + "}");
        }
        return new Answer(201, "{\"status\":\"unpaid\"}");
    }

    private Answer pay(String order) throws InterruptedException {
        synchronized (orders) {
            Row row = orders.get(order);
            if (row == null) return new Answer(404, "{}");
            if (!row.status.equals("unpaid")) return new Answer(409, "{\"status\":" + quoted(row.status) + "}");
            row.status = "paid";
        }
        try {
            duewheel.cancel(order);
        } catch (IOException | Duewheel.Refused e) {
            // The payment stands. The close will find it and be skipped.
            return new Answer(200, "{\"status\":\"paid\",\"deadline\":" + quoted(e.toString()) + "}");
        }
        return new Answer(200, "{\"status\":\"paid\"}");
    }

    private Answer all() {
        synchronized (orders) {
            return new Answer(200, orders.entrySet().stream()
                    .map(one -> quoted(one.getKey()) + ":" + quoted(one.getValue().status))
                    .collect(Collectors.joining(",", "{", "}")));
        }
    }

    private Answer hook(Headers headers, byte[] body) {
        String webhookId = headers.getFirst("webhook-id");
        if (!verifier.verify(webhookId, headers.getFirst("webhook-timestamp"), headers.getFirst("webhook-signature"), body, Instant.now())) {
            return new Answer(401, "{\"error\":\"not duewheel's call\"}");
        }
        // A shop has a JSON library. Here the few members that are needed are read from the verified body, whose form is duewheel's own:
        // they stand before the payload, and an id that needs no escapes is all that this shop gives out.
        String text = new String(body, StandardCharsets.UTF_8);
        if (!text.startsWith("{\"type\":\"order.close_due\"")) {
            // A reminder: tell the buyer here. It closes nothing.
            return new Answer(200, "{\"verdict\":\"closed\"}");
        }
        String head = text.contains("\"payload\":") ? text.substring(0, text.indexOf("\"payload\":")) : text;
        String id = member(head, "\"id\":\"([^\"\\\\]+)\""), fence = member(head, "\"fence\":(\\d+)");
        if (id == null || fence == null) return new Answer(400, "{\"verdict\":\"rejected\",\"reason\":\"no id or fence\"}");
        return close(webhookId, id, Long.parseLong(fence));
    }

    /** The conditional update, and what the order is where it did not apply. */
    private Answer close(String webhookId, String order, long fence) {
        synchronized (orders) {
            Row row = orders.get(order);
            if (row == null) return new Answer(404, "{\"verdict\":\"gone\",\"reason\":\"no such order\"}");
            // A worker that was frozen beyond its lease: another one has the order now and gets the answer.
            if (fence < row.fence) return new Answer(409, "{\"verdict\":\"failed\",\"reason\":\"a later claim was seen\"}");
            row.fence = fence;
            switch (row.status) {
                case "unpaid":
                    row.status = "closed";
                    row.closedBy = webhookId;
                    return new Answer(200, "{\"verdict\":\"closed\"}");
                case "closed":
                    // The answer to the first call was lost: the same call gets the same answer.
                    return new Answer(200, webhookId.equals(row.closedBy) ? "{\"verdict\":\"closed\"}" : "{\"verdict\":\"already_closed\"}");
                default:
                    return new Answer(200, "{\"verdict\":\"skipped\",\"state\":" + quoted(row.status) + "}");
            }
        }
    }

    private static String member(String text, String pattern) {
        Matcher found = Pattern.compile(pattern).matcher(text);
        return found.find() ? found.group(1) : null;
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        text.chars().forEach(c -> out.append(c == '"' || c == '\\' ? "\\" + (char) c : c < ' ' ? " " : String.valueOf((char) c)));
        return out.append('"').toString();
    }

    private void serve(HttpExchange exchange) throws IOException {
        byte[] body = exchange.getRequestBody().readAllBytes();
        String path = exchange.getRequestURI().getPath();
        String order = path.replaceFirst("^/orders/", "");
        Answer answer;
        try {
            answer = switch (exchange.getRequestMethod()) {
                case "PUT" -> place(order);
                case "PATCH" -> pay(order);
                case "GET" -> all();
                case "POST" -> path.equals("/hooks/close") ? hook(exchange.getRequestHeaders(), body) : new Answer(404, "{}");
                default -> new Answer(405, "{}");
            };
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            answer = new Answer(503, "{}");
        }
        byte[] text = answer.json().getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("content-type", "application/json");
        exchange.sendResponseHeaders(answer.status(), text.length);
        try (var out = exchange.getResponseBody()) {
            out.write(text);
        }
    }

    public static void main(String[] args) throws IOException {
        Map<String, String> env = System.getenv();
        String[] address = (args.length > 0 ? args[0] : "127.0.0.1:8088").split(":(?=\\d+$)");
        Shop shop = new Shop(
                new Duewheel(env.get("SHOP_DUEWHEEL"), env.get("SHOP_TOKEN"), env.getOrDefault("SHOP_WHEEL", "orders")),
                new Duewheel.Verifier(List.of(env.get("SHOP_WEBHOOK_SECRET").trim().split("\\s+"))),
                Duration.ofSeconds(Long.parseLong(env.getOrDefault("SHOP_WINDOW_SECONDS", "1800"))));
        HttpServer server = HttpServer.create(new InetSocketAddress(address[0], Integer.parseInt(address[1])), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", shop::serve);
        server.start();
        System.out.println("listening on " + address[0] + ":" + server.getAddress().getPort());
    }
}
