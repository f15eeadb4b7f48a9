package main

// A client of duewheel's HTTP API, and the check of its calls; with nothing but Go's standard library.

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Refused says that duewheel said no, and would say no again.
type Refused struct {
	Status int
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%d %s: %s %s", r.Status, r.Code, r.Title, r.Detail)
}

// ErrUnavailable: no answer after all tries. Whether the last one took effect is unknown; both calls here may be repeated later.
var ErrUnavailable = errors.New("duewheel is unavailable")

// Client places and cancels deadlines. One serves the whole process.
type Client struct {
	base, token string
	http        *http.Client
	tries       int
}

// NewClient takes duewheel's address, a token, and the name of a wheel.
func NewClient(address, token, wheel string) *Client {
	return &Client{
		base:  strings.TrimRight(address, "/") + "/v1/wheels/" + url.PathEscape(wheel) + "/deadlines/",
		token: token,
		http:  &http.Client{Timeout: 5 * time.Second},
		tries: 4,
	}
}

// Enqueue says that the order was placed: it is to be closed at that moment. The same call again changes nothing.
func (c *Client) Enqueue(ctx context.Context, order string, at time.Time, payload any) error {
	fields := map[string]any{"at": at.UnixMilli()}
	if payload != nil {
		fields["payload"] = payload
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, order, body)
}

// Cancel says that the order was paid. A deadline that is unknown (then a late Enqueue is refused) or has ended is no error.
func (c *Client) Cancel(ctx context.Context, order string) error {
	err := c.call(ctx, http.MethodDelete, order, nil)
	var refused *Refused
	if errors.As(err, &refused) && (refused.Code == "absent" || refused.Code == "ended") {
		return nil
	}
	return err
}

func (c *Client) call(ctx context.Context, method, order string, body []byte) error {
	wait := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		pause, err := c.once(ctx, method, order, body)
		var refused *Refused
		if err == nil || errors.As(err, &refused) {
			return err
		}
		if attempt == c.tries {
			return fmt.Errorf("%w: %s %s: %v", ErrUnavailable, method, order, err)
		}
		if pause == 0 {
			pause = wait
		}
		wait *= 2
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// once answers how long to wait before the next try, where the server said so.
func (c *Client) once(ctx context.Context, method, order string, body []byte) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+url.PathEscape(order), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("authorization", "Bearer "+c.token)
	request.Header.Set("accept", "application/json")
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	// Read to the end, or the connection is not kept.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	status := answer.StatusCode
	switch {
	case status >= 200 && status < 300:
		return 0, nil
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500:
		pause, _ := strconv.ParseUint(answer.Header.Get("retry-after"), 10, 16)
		if pause > 5 {
			pause = 5
		}
		return time.Duration(pause) * time.Second, fmt.Errorf("status %d", status)
	default:
		refused := &Refused{}
		// What is no problem+json leaves the status alone.
		_ = json.Unmarshal(text, refused)
		refused.Status = status
		return 0, refused
	}
}

// ErrForged: a call that duewheel did not make, or made too long ago. Answer 401 and do nothing.
var ErrForged = errors.New("not duewheel's call")

// Verifier checks calls by Standard Webhooks 1.0. Several secrets are valid at once while one replaces another.
type Verifier struct {
	keys      [][]byte
	tolerance time.Duration
}

// NewVerifier reads whsec_ secrets.
func NewVerifier(secrets ...string) (*Verifier, error) {
	verifier := &Verifier{tolerance: 5 * time.Minute}
	for _, secret := range secrets {
		if !strings.HasPrefix(secret, "whsec_") {
			return nil, errors.New("a secret begins with whsec_")
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, errors.New("a secret is base64 behind whsec_")
		}
		if len(key) < 24 || len(key) > 64 {
			return nil, errors.New("a secret holds 24 to 64 bytes")
		}
		verifier.keys = append(verifier.keys, key)
	}
	if len(verifier.keys) == 0 {
		return nil, errors.New("no secret")
	}
	return verifier, nil
}

// Verify fails unless the call is duewheel's; body is what came, byte for byte, before any parsing.
func (v *Verifier) Verify(header http.Header, body []byte, now time.Time) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	if id == "" || err != nil {
		return fmt.Errorf("%w: no webhook-id or webhook-timestamp", ErrForged)
	}
	if age := now.Sub(time.Unix(int64(seconds), 0)); age > v.tolerance || age < -v.tolerance {
		return fmt.Errorf("%w: the timestamp is too far from now", ErrForged)
	}
	fits := false
	for _, key := range v.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for _, given := range strings.Split(header.Get("webhook-signature"), " ") {
			// hmac.Equal takes constant time.
			if hmac.Equal(expected, []byte(given)) {
				fits = true
			}
		}
	}
	if !fits {
		return fmt.Errorf("%w: no signature fits", ErrForged)
	}
	return nil
}
