import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** A client of duewheel's HTTP API, and the check of its calls; with nothing but the JDK (17 or later). */
public final class Duewheel {
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(3)).build();
    private final String base;
    private final String token;
    private static final int TRIES = 4;

    /** duewheel's address, a token, and the name of a wheel. One serves the whole process. */
    public Duewheel(String url, String token, String wheel) {
        this.base = url.replaceAll("/+$", "") + "/v1/wheels/" + encoded(wheel) + "/deadlines/";
        this.token = token;
    }

    /** duewheel said no, and would say no again; the text is its problem+json. */
    public static final class Refused extends Exception {
        private static final long serialVersionUID = 1;
        public final int status;
        public final String problem;

        Refused(int status, String problem) {
            super(status + ": " + problem);
            this.status = status;
            this.problem = problem;
        }
    }

    /**
     * The order was placed: it is to be closed at that moment. {@code payload} is JSON text or null. The same call again changes
     * nothing. An {@link IOException} says that there was no answer after all tries: the outcome is unknown, repeat it later.
     */
    public String enqueue(String order, Instant at, String payload) throws IOException, InterruptedException, Refused {
        String body = "{\"at\":" + at.toEpochMilli() + (payload == null ? "" : ",\"payload\":" + payload) + "}";
        return call(order, request -> request.header("content-type", "application/json").PUT(HttpRequest.BodyPublishers.ofString(body)));
    }

    /** The order was paid. A deadline that is unknown (then a late enqueue is refused) or has ended is no error: the answer says so. */
    public String cancel(String order) throws IOException, InterruptedException, Refused {
        try {
            return call(order, HttpRequest.Builder::DELETE);
        } catch (Refused e) {
            if (e.problem.contains("\"code\":\"absent\"") || e.problem.contains("\"code\":\"ended\"")) return e.problem;
            throw e;
        }
    }

    private String call(String order, UnaryOperator<HttpRequest.Builder> method) throws IOException, InterruptedException, Refused {
        HttpRequest.Builder bare = HttpRequest.newBuilder(URI.create(base + encoded(order))).timeout(Duration.ofSeconds(5));
        HttpRequest request = method.apply(bare.header("authorization", "Bearer " + token).header("accept", "application/json")).build();
        long wait = 100;
        for (int attempt = 1; ; attempt++) {
            IOException failure;
            long pause = wait;
            try {
                HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
                int status = answer.statusCode();
                if (status >= 200 && status < 300) return answer.body();
                if (status != 408 && status != 429 && status < 500) throw new Refused(status, answer.body());
                failure = new IOException("status " + status);
                String after = answer.headers().firstValue("retry-after").orElse("");
                if (after.matches("\\d{1,9}")) pause = Math.min(Long.parseLong(after), 5) * 1000;
            } catch (IOException e) {
                failure = e;
            }
            if (attempt == TRIES) throw failure;
            Thread.sleep(pause);
            wait *= 2;
        }
    }

    private static String encoded(String segment) {
        return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Checks calls by Standard Webhooks 1.0. Several secrets are valid at once while one replaces another. */
    public static final class Verifier {
        private static final Duration TOLERANCE = Duration.ofMinutes(5);
        private final List<SecretKeySpec> keys = new ArrayList<>();

        /** Reads whsec_ secrets. */
        public Verifier(List<String> secrets) {
            for (String secret : secrets) {
                if (!secret.startsWith("whsec_")) throw new IllegalArgumentException("a secret begins with whsec_");
                byte[] key = Base64.getDecoder().decode(secret.substring("whsec_".length()));
                if (key.length < 24 || key.length > 64) throw new IllegalArgumentException("a secret holds 24 to 64 bytes");
                keys.add(new SecretKeySpec(key, "HmacSHA256"));
            }
            if (keys.isEmpty()) throw new IllegalArgumentException("no secret");
        }

        /** Whether duewheel made this call, lately. {@code body} is what came, byte for byte, before any parsing. If not, answer 401. */
        public boolean verify(String id, String timestamp, String signatures, byte[] body, Instant now) {
            if (id == null || id.isEmpty() || timestamp == null || signatures == null || !timestamp.matches("[0-9]{1,12}")) return false;
            if (Duration.between(Instant.ofEpochSecond(Long.parseLong(timestamp)), now).abs().compareTo(TOLERANCE) > 0) return false;
            boolean fits = false;
            for (SecretKeySpec key : keys) {
                byte[] expected = ("v1," + Base64.getEncoder().encodeToString(signature(key, id + "." + timestamp + ".", body)))
                        .getBytes(StandardCharsets.US_ASCII);
                for (String given : signatures.split(" ")) {
                    // MessageDigest.isEqual takes constant time.
                    fits |= MessageDigest.isEqual(expected, given.getBytes(StandardCharsets.US_ASCII));
                }
            }
            return fits;
        }

        private static byte[] signature(SecretKeySpec key, String head, byte[] body) {
            try {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(key);
                mac.update(head.getBytes(StandardCharsets.ISO_8859_1));
                return mac.doFinal(body);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("every JDK has HmacSHA256", e);
            }
        }
    }
}
