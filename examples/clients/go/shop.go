// A small shop that has its unpaid orders closed by duewheel. Its orders are in memory; in a real one the same steps run in the database.
//
//	SHOP_DUEWHEEL=http://127.0.0.1:8480 SHOP_TOKEN=... SHOP_WEBHOOK_SECRET=whsec_... go run . 127.0.0.1:8088
//
//	curl -X PUT   127.0.0.1:8088/orders/A17    # an order, unpaid; duewheel is told
//	curl -X PATCH 127.0.0.1:8088/orders/A17    # the payment; duewheel is told
//	curl          127.0.0.1:8088/orders        # all of them
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

type answer map[string]any

// row is what the shop knows of an order: its status, the highest fence that was seen, and which call closed it.
type row struct {
	status, closedBy string
	fence            uint64
}

type shop struct {
	client   *Client
	verifier *Verifier
	window   time.Duration

	lock   sync.Mutex
	orders map[string]*row
}

func (s *shop) place(r *http.Request, order string) (int, answer) {
	// First the order, then its deadline: a crash in between leaves an order that a sweep finds, never a deadline without one.
	// The moment is the order's own, so that a repeated call means the same one.
	closeAt := time.Now().Add(s.window)
	s.lock.Lock()
	s.orders[order] = &row{status: "unpaid"}
	s.lock.Unlock()
	if err := s.client.Enqueue(r.Context(), order, closeAt, answer{"shop": "go"}); err != nil {
		return 503, answer{"status": "unpaid", "deadline": err.Error()}
	}
	return 201, answer{"status": "unpaid"}
}

func (s *shop) pay(r *http.Request, order string) (int, answer) {
	if status, refused := s.paid(order); refused != nil {
		return status, refused
	}
	if err := s.client.Cancel(r.Context(), order); err != nil {
		// The payment stands. The close will find it and be skipped.
		return 200, answer{"status": "paid", "deadline": err.Error()}
	}
	return 200, answer{"status": "paid"}
}

func (s *shop) paid(order string) (int, answer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.orders[order]
	if found == nil {
		return 404, answer{}
	}
	if found.status != "unpaid" {
		return 409, answer{"status": found.status}
	}
	found.status = "paid"
	return 200, nil
}

func (s *shop) all() (int, answer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	all := answer{}
	for id, one := range s.orders {
		all[id] = one.status
	}
	return 200, all
}

type call struct {
	Type string `json:"type"`
	Data struct {
		ID    string `json:"id"`
		Fence uint64 `json:"fence"`
	} `json:"data"`
}

func (s *shop) hook(r *http.Request, body []byte) (int, answer) {
	if err := s.verifier.Verify(r.Header, body, time.Now()); err != nil {
		return 401, answer{"error": err.Error()}
	}
	var message call
	if err := json.Unmarshal(body, &message); err != nil || message.Data.ID == "" {
		return 400, answer{"verdict": "rejected", "reason": "no id"}
	}
	if message.Type != "order.close_due" {
		// A reminder: tell the buyer here. It closes nothing.
		return 200, answer{"verdict": "closed"}
	}
	return s.close(r.Header.Get("webhook-id"), message.Data.ID, message.Data.Fence)
}

// close is the conditional update, and what the order is where it did not apply.
func (s *shop) close(webhookID, order string, fence uint64) (int, answer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found := s.orders[order]
	switch {
	case found == nil:
		return 404, answer{"verdict": "gone", "reason": "no such order"}
	case fence < found.fence:
		// A worker that was frozen beyond its lease: another one has the order now and gets the answer.
		return 409, answer{"verdict": "failed", "reason": "a later claim was seen"}
	}
	found.fence = fence
	switch {
	case found.status == "unpaid":
		found.status, found.closedBy = "closed", webhookID
		return 200, answer{"verdict": "closed"}
	case found.status == "closed" && found.closedBy == webhookID:
		// The answer to the first call was lost: the same call gets the same answer.
		return 200, answer{"verdict": "closed"}
	case found.status == "closed":
		return 200, answer{"verdict": "already_closed"}
	default:
		return 200, answer{"verdict": "skipped", "state": found.status}
	}
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	status, value := 405, answer{}
	order := strings.TrimPrefix(r.URL.Path, "/orders/")
	switch r.Method {
	case http.MethodPut:
		status, value = s.place(r, order)
	case http.MethodPatch:
		status, value = s.pay(r, order)
	case http.MethodGet:
		status, value = s.all()
	case http.MethodPost:
		if r.URL.Path == "/hooks/close" {
			status, value = s.hook(r, body)
		}
	}
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	address := "127.0.0.1:8088"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	verifier, err := NewVerifier(strings.Fields(os.Getenv("SHOP_WEBHOOK_SECRET"))...)
	if err != nil {
		log.Fatal(err)
	}
	window, err := time.ParseDuration(environment("SHOP_WINDOW_SECONDS", "1800") + "s")
	if err != nil {
		log.Fatal(err)
	}
	shop := &shop{
		client:   NewClient(os.Getenv("SHOP_DUEWHEEL"), os.Getenv("SHOP_TOKEN"), environment("SHOP_WHEEL", "orders")),
		verifier: verifier,
		window:   window,
		orders:   map[string]*row{},
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	// duewheel keeps idle connections for four seconds; whoever closes first should be duewheel.
	server := &http.Server{Handler: shop, IdleTimeout: 30 * time.Second, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
