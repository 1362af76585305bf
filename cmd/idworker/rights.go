package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// role is whose needs a doctor looks at.
type role string

// The roles, as nats.conf has users for them.
const (
	roleAll      role = "all" // worker and loader
	roleWorker   role = "worker"
	roleLoader   role = "loader"
	roleAdmin    role = "admin"
	roleEnricher role = "enricher"
)

// uses reports whether the role has to do with a resource, given by its name for people.
func (r role) uses(name string, p messages.Prefix) bool {
	switch r {
	case roleWorker:
		return name != "bucket "+jetstreamstore.BucketName(p) && !strings.HasPrefix(name, "consumer ")
	case roleLoader:
		return name != "bucket "+lease.ClockBucketName(p) && name != "bucket "+lease.WorkersBucketName(p)
	}
	return true
}

// rights are subjects that a role publishes to and subscribes to. A queue group stands
// behind its subject, as in nats.conf.
type rights struct{ publish, subscribe []string }

func (r rights) plus(more rights) rights {
	return rights{append(r.publish, more.publish...), append(r.subscribe, more.subscribe...)}
}

// needs are the rights without which a role cannot do its work.
func (r role) needs(p messages.Prefix, kind backend.Kind) rights {
	switch r {
	case roleWorker:
		return workerNeeds(p)
	case roleLoader:
		return loaderNeeds(p, kind)
	case roleAdmin:
		return adminNeeds(p, kind)
	case roleEnricher:
		return enricherNeeds(p)
	}
	return workerNeeds(p).plus(loaderNeeds(p, kind))
}

func workerNeeds(p messages.Prefix) rights {
	need := rights{
		publish:   []string{loads.Subject(p, "*", ">"), loads.ReserveSubject(p), write(agreement.BucketName(p), "layout"), write(agreement.BucketName(p), "clock")},
		subscribe: []string{p.Segment(">") + " " + p.QueueGroup(), p.Snowflake() + " " + p.QueueGroup(), loads.GrantSubject(p, "*")},
	}
	need.publish = append(need.publish, watch(worker.TagsBucketName(p))...)
	for _, bucket := range []string{agreement.BucketName(p), lease.WorkersBucketName(p), lease.ClockBucketName(p)} {
		need.publish = append(need.publish, append(watch(bucket), read(bucket)...)...)
	}
	need.publish = append(need.publish, write(lease.WorkersBucketName(p), ">"), write(lease.ClockBucketName(p), ">"))
	return need
}

func loaderNeeds(p messages.Prefix, kind backend.Kind) rights {
	of := loads.StreamName(p) + ".loader"
	need := rights{
		publish: []string{
			loads.GrantSubject(p, "*"), api("CONSUMER.INFO." + of), api("CONSUMER.MSG.NEXT." + of), "$JS.ACK." + of + ".>",
			write(worker.TagsBucketName(p), ">"), write(agreement.BucketName(p), "store"),
		},
		subscribe: []string{loads.ReserveSubject(p) + " " + p.QueueGroup()},
	}
	need.publish = append(need.publish, watch(worker.TagsBucketName(p))...)
	need.publish = append(need.publish, read(agreement.BucketName(p))...)
	if kind == backend.JetStream {
		need.publish = append(need.publish, append(watch(jetstreamstore.BucketName(p)), read(jetstreamstore.BucketName(p))...)...)
		need.publish = append(need.publish, write(jetstreamstore.BucketName(p), ">"))
	}
	return need
}

func adminNeeds(p messages.Prefix, kind backend.Kind) (need rights) {
	streams := []string{loads.StreamName(p), "KV_" + worker.TagsBucketName(p), "KV_" + agreement.BucketName(p), "KV_" + lease.WorkersBucketName(p), "KV_" + lease.ClockBucketName(p)}
	if kind == backend.JetStream {
		streams = append(streams, "KV_"+jetstreamstore.BucketName(p))
		need.publish = append(need.publish, write(jetstreamstore.BucketName(p), ">"))
	}
	for _, stream := range streams {
		need.publish = append(need.publish, api("STREAM.INFO."+stream), api("STREAM.CREATE."+stream), api("STREAM.UPDATE."+stream))
	}
	need.publish = append(need.publish, write(worker.TagsBucketName(p), ">"))
	return need
}

// enricherNeeds are those that do not depend on which streams there are: those of
// streams, enrich finds out when it starts.
func enricherNeeds(p messages.Prefix) rights {
	need := rights{publish: []string{p.Segment(">"), p.Snowflake(), api("STREAM.NAMES"), write(enrich.BucketName(p), ">")}}
	need.publish = append(need.publish, read(enrich.BucketName(p))...)
	return need
}

// The subjects of JetStream behind what is done with a bucket.

func api(call string) string { return "$JS.API." + call }

func read(bucket string) []string {
	return []string{api("STREAM.INFO.KV_" + bucket), api("DIRECT.GET.KV_" + bucket + ".>")}
}

func watch(bucket string) []string {
	return []string{api("STREAM.INFO.KV_" + bucket), api("CONSUMER.CREATE.KV_" + bucket + ".>")}
}

func write(bucket, key string) string { return "$KV." + bucket + "." + key }

// rights compares what the user may with what the role needs.
func (d *doctorCmd) rights(ctx context.Context, f *findings, conn *nats.Conn, kind backend.Kind) {
	if d.JSDomain != "" {
		f.warn("rights", "not looked at with --js-domain")
		return
	}
	var allowed *server.Permissions
	err := f.ask(ctx, func(ctx context.Context) (err error) {
		allowed, err = permissions(ctx, conn)
		return err
	})
	if err != nil {
		f.warn("rights", fmt.Sprintf("the server does not tell what this user may ($SYS.REQ.USER.INFO): %v", err))
		return
	}
	var lacking []string
	need := d.Role.needs(d.Prefix, kind)
	if allowed != nil {
		for _, subject := range need.publish {
			if !permits(allowed.Publish, subject) {
				lacking = append(lacking, "publish "+subject)
			}
		}
		for _, subject := range append(need.subscribe, conn.NewInbox()) {
			if !permits(allowed.Subscribe, subject) {
				lacking = append(lacking, "subscribe "+subject)
			}
		}
	}
	if len(lacking) > 0 {
		err = errors.New("the user may not " + strings.Join(lacking, ", "))
	}
	f.note("rights", err, fmt.Sprintf("all that the role %s needs", d.Role))
}

// permissions asks the server what the user of a connection may do; nil means everything.
func permissions(ctx context.Context, conn *nats.Conn) (*server.Permissions, error) {
	reply, err := conn.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return nil, err
	}
	var info struct {
		Data *server.UserInfo `json:"data"`
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil || info.Data == nil {
		return nil, errors.New("the answer cannot be read")
	}
	return info.Data.Permissions, nil
}

// permits reports whether a list allows all of what a subject, with or without a queue
// group, matches.
func permits(list *server.SubjectPermission, subject string) bool {
	if list == nil {
		return true
	}
	allowed := len(list.Allow) == 0
	for _, pattern := range list.Allow {
		allowed = allowed || covers(pattern, subject)
	}
	for _, pattern := range list.Deny {
		plain, _, _ := strings.Cut(pattern, " ")
		wanted, _, _ := strings.Cut(subject, " ")
		allowed = allowed && !server.SubjectsCollide(plain, wanted)
	}
	return allowed
}

// covers reports whether a pattern of a list allows a subject. One with a queue group
// allows that group only, one without allows every group.
func covers(pattern, subject string) bool {
	pattern, group, inGroup := strings.Cut(pattern, " ")
	wanted, wantedGroup, _ := strings.Cut(subject, " ")
	return server.SubjectMatchesFilter(wanted, pattern) && (!inGroup || group == wantedGroup)
}
