// Command http is a service that creates orders. It gets their IDs by the Go
// client, which retries while no worker answers.
//
//	go run ./docs/example/http
//	curl -i -d '{"customer":"ada","cents":1999}' 127.0.0.1:8081/orders
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

type order struct {
	ID       int64  `json:"id,string"` // JavaScript rounds large numbers
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The service also starts without NATS, and returns 503 until it connects.
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", createOrder(messages.NewClient(nc, messages.DefaultPrefix)))
	server := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8081"), Handler: mux, ReadTimeout: 5 * time.Second}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // waits for requests
	nc.Close()
}

func createOrder(ids *messages.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		var err error
		if o.ID, err = ids.Next(ctx, "order"); errors.Is(err, context.DeadlineExceeded) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "no ID in time", http.StatusServiceUnavailable)
			return
		} else if err != nil { // the tag is missing, or the caller has left
			log.Print(err)
			http.Error(w, "no ID", http.StatusInternalServerError)
			return
		}
		// Here the order goes into the database, with its ID as the key.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(o) // fails if the caller has left
	}
}
