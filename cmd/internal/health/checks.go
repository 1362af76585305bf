package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// RoleAll is a worker and loader in one process, beside the roles of package
// rights.
const RoleAll rights.Duty = "all"

// usesWorkerIDs reports whether a role uses worker IDs and their layout.
func usesWorkerIDs(r rights.Duty) bool {
	return r == RoleAll || r == rights.Worker || r == rights.Snowflake || r == rights.Admin
}

// usesStore reports whether a role uses the store.
func usesStore(r rights.Duty) bool { return r == RoleAll || r == rights.Loader || r == rights.Admin }

// hasOwnStreams reports whether a role uses streams of events, which may be in
// another account than the IDs. It uses the server of its streams, whose owner
// decides about it.
func hasOwnStreams(r rights.Duty) bool { return r == rights.Enricher || r == rights.Auditor }

// Needs returns the rights that a role needs, in the account's own JetStream
// domain.
func Needs(r rights.Duty, p messages.Prefix) rights.Rights {
	switch r {
	case RoleAll:
		return rights.Join(Needs(rights.Worker, p), Needs(rights.Loader, p))
	case rights.Enricher:
		return rights.Join(enrich.Rights(p, r), agreement.Rights(p, r))
	case rights.Auditor:
		return verify.Rights(r)
	default:
		return rights.Join(worker.Rights(p, r), register.Rights(p, r))
	}
}

// check makes one check.
type check func(context.Context) []Diagnosis

// roleChecks returns the checks of the role, in the order of their lines.
func (c *collection) roleChecks() []check {
	switch {
	case c.by.Role == rights.Caller:
		return []check{c.checkRequests}
	case hasOwnStreams(c.by.Role):
		return []check{c.checkRights, c.checkResources}
	}
	return []check{
		c.checkSync, c.checkVersions, c.checkReplicas, c.checkPayload, c.checkRights, c.checkResources, c.checkRaise, c.checkTemplates, c.checkStorage, c.checkClock, c.checkLayout, c.checkStore,
	}
}

// examine makes the checks of the role at once, if that was not done in the last
// minute.
func (c *collection) examine(ctx context.Context) []Diagnosis {
	if time.Since(c.by.examined) > examineEvery {
		checks := c.roleChecks()
		results := make([][]Diagnosis, len(checks))
		var running sync.WaitGroup
		for n, check := range checks {
			running.Go(func() { results[n] = check(ctx) })
		}
		running.Wait()
		c.by.checks, c.by.examined = slices.Concat(results...), time.Now()
	}
	return c.by.checks
}

// ask is [collection.query] for a request with a result.
func ask[T any](ctx context.Context, c *collection, need rights.Rights, request func(context.Context) (T, error)) (answer T, err error) {
	err = c.query(ctx, need, func(ctx context.Context) (err error) {
		answer, err = request(ctx)
		return err
	})
	return answer, err
}

// inbox is the subject of the check whether replies arrive.
const inbox = "inbox"

// checkServer checks that this user can receive replies, and names the server.
func (c *collection) checkServer(ctx context.Context) Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, inboxWithin)
	defer cancel()
	ctx, explain := c.denials.When(ctx, natsconn.OwnSubscriptions)
	sub, err := c.conn.SubscribeSync(c.conn.NewInbox())
	if err == nil {
		// Fails only on a closed connection.
		defer func() { _ = sub.Unsubscribe() }()
		err = c.conn.FlushWithContext(ctx)
	}
	if err = explain(err); err != nil {
		return c.diagnose(inbox, "", err)
	}
	return c.diagnose("server", fmt.Sprintf("%s %s, version %s",
		c.conn.ConnectedServerName(), natsconn.Redact(c.conn.ConnectedUrl()), c.conn.ConnectedServerVersion()), nil)
}

// CheckSync is [durability.CheckServers], except that an embedded server has
// checked that before.
func CheckSync(ctx context.Context, conn *nats.Conn) error {
	if conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	return durability.CheckServers(ctx, conn)
}

// Sync is the subject of the check for syncing.
const Sync = "sync"

// checkSync checks that the servers sync every write.
func (c *collection) checkSync(ctx context.Context) []Diagnosis {
	err := c.query(ctx, rights.Publish(durability.AskServers), func(ctx context.Context) error { return CheckSync(ctx, c.conn) })
	if natsconn.IsDenied(err) {
		err = fmt.Errorf("%w: %w", durability.ErrSyncUnknown, err)
	}
	if c.by.AllowUnsynced && (errors.Is(err, durability.ErrSyncUnknown) || errors.Is(err, durability.ErrNoSync)) {
		return []Diagnosis{c.diagnose(Sync, err.Error()+", as --allow-unsynced accepts", nil)}
	}
	return []Diagnosis{c.diagnose(Sync, "every write is synced before it is acknowledged", err)}
}

// checkVersions checks that no server has a version that loses counters. The
// line of the server has the version of the connected one.
func (c *collection) checkVersions(ctx context.Context) []Diagnosis {
	if c.conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	var servers []durability.ServerVersion
	all := false
	err := c.query(ctx, rights.Rights{}, func(ctx context.Context) (err error) {
		servers, all, err = durability.Versions(ctx, c.conn, func(subject string) bool { return c.allowed.Check(rights.Publish(subject)) == nil })
		return err
	})
	if err == nil {
		err = durability.CheckVersions(servers)
	}
	cluster := c.conn.ConnectedClusterName()
	old := slices.ContainsFunc(servers, func(s durability.ServerVersion) bool { return durability.RevivesOld(s.Version) })
	text := durability.List(servers)
	switch {
	case err != nil:
	case cluster != "" && old:
		err = fmt.Errorf("%w: %s", ErrRevivesOld, text)
	case !all:
		err = fmt.Errorf("%w: this user sees only %s of the cluster %s, and needs the right to %s or %s",
			ErrVersionsUnknown, text, cluster, durability.AskAccount, durability.AskServers)
	}
	return []Diagnosis{c.diagnose("versions", text, err)}
}

// lasting are the streams of an installation whose messages neither expire nor
// are deleted once they are read.
func lasting(p messages.Prefix) []string {
	return []string{
		kv.StreamName(register.BucketName(p)), kv.StreamName(agreement.BucketName(p)),
		kv.StreamName(lease.ClockBucketName(p)), kv.StreamName(enrich.BucketName(p)),
	}
}

// CompareReplicas returns an [ErrReplicasDiffer] if replicas of the installation's
// streams have different numbers of messages at the same last sequence. Another
// error means that they could not be compared.
func CompareReplicas(ctx context.Context, conn *nats.Conn, p messages.Prefix) error {
	differing, err := durability.CompareReplicas(ctx, conn, lasting(p))
	if err != nil || len(differing) == 0 {
		return err
	}
	texts := make([]string, 0, len(differing))
	for _, d := range differing {
		texts = append(texts, d.String())
	}
	return fmt.Errorf("%w: %s", ErrReplicasDiffer, strings.Join(texts, "; "))
}

// checkReplicas compares the replicas of the installation's streams on a cluster.
// Whether the user may ask, the check for syncing reports.
func (c *collection) checkReplicas(ctx context.Context) []Diagnosis {
	if c.conn.ConnectedClusterName() == "" || c.inDomain() {
		return nil
	}
	err := c.query(ctx, rights.Publish(durability.AskServers), func(ctx context.Context) error { return CompareReplicas(ctx, c.conn, c.by.Prefix) })
	switch {
	case err == nil, errors.Is(err, ErrReplicasDiffer):
		return []Diagnosis{c.diagnose("replicas", "those of the same last sequence have the same number of messages", err)}
	case errors.Is(err, durability.ErrManyStreams):
		return []Diagnosis{c.diagnose("replicas", err.Error(), nil)}
	}
	return nil
}

// checkPayload checks the limit for messages of the connection's server.
func (c *collection) checkPayload(context.Context) []Diagnosis {
	return []Diagnosis{c.diagnose(payloadCheck, fmt.Sprintf("%d bytes", c.payload), payloadError("this connection", c.payload))}
}

// checkRights checks the user's rights, as the server reports them.
func (c *collection) checkRights(context.Context) []Diagnosis {
	if c.inDomain() {
		return []Diagnosis{{Severity: Warning, What: "rights", Text: "not checked in another JetStream domain"}}
	}
	if c.allowedErr != nil {
		return []Diagnosis{c.diagnose("rights", "", fmt.Errorf("%w (%s): %w", errRights, rights.AskPermissions, c.allowedErr))}
	}
	need := rights.Join(Needs(c.by.Role, c.by.Prefix), rights.Subscribe(c.conn.NewInbox()))
	lacks := c.allowed.Check(need)
	if lacks != nil && c.by.Viewer { // no process of the role
		return nil
	}
	complete := fmt.Sprintf("complete for the role %s", c.by.Role)
	if spare := spareRights(c.by.Role, c.by.Prefix); lacks != nil && c.allowed.Check(need.Without(spare)) == nil {
		d := c.diagnose("rights", complete, fmt.Errorf("%w, and its process works without", lacks))
		d.Severity = Warning
		return []Diagnosis{d}
	}
	return []Diagnosis{c.diagnose("rights", complete, lacks)}
}

// spareRights returns the rights that processes of a role use, but work without. The
// nats.conf of version 0.2.0 lacks them, and docs/upgrades.md says what is lost.
func spareRights(r rights.Duty, p messages.Prefix) rights.Rights {
	switch r {
	case RoleAll, rights.Worker, rights.Loader:
		return rights.Join(worker.PublishClaimsRights(p), agreement.LeaveProofRights(p))
	}
	return rights.Rights{}
}

// checkResources checks the role's streams and buckets.
func (c *collection) checkResources(ctx context.Context) (all []Diagnosis) {
	needs := Needs(c.by.Role, c.by.Prefix)
	if (c.by.Role == rights.Admin || c.by.Role == rights.Monitor) && c.snowflakeOnly(ctx) {
		needs = Needs(rights.Snowflake, c.by.Prefix)
	}
	own := slices.DeleteFunc(slices.Clone(c.by.Resources), func(r kv.Resource) bool { return !needs.Includes(r.InfoSubject()) })
	all = make([]Diagnosis, len(own))
	copies := make([]string, len(own)) // what is wrong with them
	var looking sync.WaitGroup
	for n, r := range own {
		looking.Go(func() {
			found, err := ask(ctx, c, rights.Publish(r.InfoSubject()), func(ctx context.Context) (kv.Found, error) { return r.Look(ctx, c.js) })
			if err == nil && found.Difference != "" {
				err = fmt.Errorf("%w: %s", ErrDifferent, found.Difference)
			}
			all[n], copies[n] = c.diagnose(r.String(), "as it should be", err), found.Copies
		})
	}
	looking.Wait()
	missing := make(map[string][]string) // trouble with copies → its resources
	for n, r := range own {
		if copies[n] != "" {
			missing[copies[n]] = append(missing[copies[n]], r.String())
		}
	}
	for _, text := range slices.Sorted(maps.Keys(missing)) {
		all = append(all, c.diagnose("copies", "", fmt.Errorf("%w: %s: %s", ErrCopies, text, strings.Join(missing[text], ", "))))
	}
	return all
}

// snowflakeOnly reports whether only snowflake IDs were ever issued: there are
// a layout, no store, and no load stream. Without an answer it is false.
func (c *collection) snowflakeOnly(ctx context.Context) bool {
	<-c.agreed.read
	if c.agreed.layout == "" || c.agreed.hasStore() {
		return false
	}
	_, err := c.stream(ctx, loadmsg.StreamName(c.by.Prefix))
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

func (c *collection) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return ask(ctx, c, rights.Publish(rights.StreamInfo(name)), func(ctx context.Context) (jetstream.Stream, error) { return c.js.Stream(ctx, name) })
}

// decidedAhead is how far a decision may lie ahead of the clock: a raise accepts
// clocks that differ by as much.
const decidedAhead = 10 * time.Second

// checkRaise reports a raise of all tags that has not ended, and a decision that a
// wrong clock dated. The check of the bucket reports an unreadable register.
func (c *collection) checkRaise(ctx context.Context) []Diagnosis {
	info := rights.StreamInfo(kv.StreamName(register.BucketName(c.by.Prefix)))
	if !Needs(c.by.Role, c.by.Prefix).Includes(info) {
		return nil
	}
	state, err := ask(ctx, c, rights.Publish(info), func(ctx context.Context) (register.Summary, error) {
		return register.Look(ctx, c.js, c.by.Prefix)
	})
	if ahead := time.Until(state.Decided).Round(time.Second); err == nil && state.Marked == 0 && ahead > decidedAhead {
		return []Diagnosis{{Severity: Warning, What: "raise", Text: fmt.Sprintf("the latest decision is of %s UTC, %v ahead of the clock: a clock was wrong then; raises go above that time, and dated names that begin before it begin at the lowest first ID",
			state.Decided.UTC().Format(time.DateTime), ahead)}}
	}
	if err != nil || state.Marked == 0 {
		return nil
	}
	return []Diagnosis{{Severity: Error, What: "raise", Text: "all tags are being raised, or that was interrupted, and nothing is granted until it ends; unless it still runs: " + raiseAll}}
}

const (
	// cheapNames is the number of names that a NATS server lists in one reply.
	cheapNames = 100_000

	// namesWithin bounds the list of a template's names. About 200,000 take that
	// long, and a million 18 times as long.
	namesWithin = time.Second
)

// checkTemplates forecasts when the dated templates of few tags are full. The
// names of their tags are their dates, so one list of names is the evidence.
// Other checks report a register that cannot be read.
func (c *collection) checkTemplates(ctx context.Context) (all []Diagnosis) {
	bucket := register.BucketName(c.by.Prefix)
	name, subjects := kv.StreamName(bucket), "$KV."+bucket+"."
	<-c.agreed.read
	if !Needs(c.by.Role, c.by.Prefix).Includes(rights.StreamInfo(name)) || !slices.ContainsFunc(c.Templates, isForecast) {
		return nil
	}
	stream, err := c.stream(ctx, name)
	if err != nil {
		return nil
	}
	for _, t := range c.Templates {
		// A longer list is worth its cost only if a warning can follow: the rate is
		// measured for a week at least, and four weeks add at most four times the
		// tags so far.
		if names := int64(stream.CachedInfo().State.Msgs); !isForecast(t) || names > cheapNames && names < t.MaxTags/5 {
			continue
		}
		found, err := ask(ctx, c, rights.Publish(rights.StreamInfo(name)), func(ctx context.Context) (*jetstream.StreamInfo, error) {
			ctx, cancel := context.WithTimeout(ctx, namesWithin)
			defer cancel()
			return stream.Info(ctx, jetstream.WithSubjectFilter(subjects+t.Pattern))
		})
		if err != nil {
			return append(all, Diagnosis{What: "template " + t.Pattern, Text: fmt.Sprintf("no forecast: its tags were not listed within %v: %v", namesWithin, err)})
		}
		var tags []string
		for subject := range found.State.Subjects {
			tag := strings.TrimPrefix(subject, subjects)
			if c.Templates.Find(tag).Pattern == t.Pattern { // it matches t, if no other
				tags = append(tags, tag)
			}
		}
		all = append(all, judgeTemplate(t, tags, time.Now()))
	}
	return all
}

// isForecast reports whether tags of the template have dates, and a limit.
func isForecast(t templates.Template) bool { return t.Dated != "" && t.MaxTags > 0 }

// nearlyFull is the share of an account's storage that is worth a warning.
const nearlyFull = 0.8

// checkStorage checks that the account has enough storage of its own. Only
// administrators and monitors may request that. An embedded server serves only this
// installation.
func (c *collection) checkStorage(ctx context.Context) []Diagnosis {
	if c.by.Role != rights.Admin && c.by.Role != rights.Monitor || c.conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	account, err := ask(ctx, c, rights.Publish(rights.API("INFO")), c.js.AccountInfo)
	if err != nil {
		return []Diagnosis{c.diagnose("storage", "", err)}
	}
	const mb = 1 << 20
	used, limit := storageOf(account)
	state := fmt.Sprintf("%d of the account's %d MB used", used/mb, limit/mb)
	switch {
	case limit < 0:
		err = ErrShared
	case float64(used) > nearlyFull*float64(limit):
		err = fmt.Errorf("%w: %s", ErrNearlyFull, state)
	}
	all := []Diagnosis{c.diagnose("storage", state, err)}
	if limit > 0 {
		all = append(all, c.checkRoom(ctx)...)
	}
	return all
}

// storageOf returns the bytes that an account uses and may use; a negative limit
// is none. In operator mode an account may have one limit for each number of
// replicas, R1 or R3, of a stream's single copy: the fullest counts.
func storageOf(account *jetstream.AccountInfo) (used uint64, limit int64) {
	used, limit = account.Store, account.Limits.MaxStore
	fullest := math.Inf(-1)
	for name, tier := range account.Tiers {
		copies, _ := strconv.Atoi(strings.TrimPrefix(name, "R"))
		most := tier.Limits.MaxStore * int64(max(1, copies))
		if share := float64(tier.Store) / float64(most); share > fullest {
			fullest, used, limit = share, tier.Store, most
		}
	}
	return used, limit
}

// tagBytes is about what a tag takes in the register.
const tagBytes = 250

// checkRoom compares the room for new tags in the register with the tags that
// templates may make. The check of the bucket reports a missing register.
func (c *collection) checkRoom(ctx context.Context) []Diagnosis {
	const what = "room for tags"
	stream, err := c.stream(ctx, kv.StreamName(register.BucketName(c.by.Prefix)))
	<-c.agreed.read
	if err != nil || c.agreed.err != nil {
		return nil
	}
	info := stream.CachedInfo()
	if info.Config.MaxBytes <= 0 {
		return []Diagnosis{c.diagnose(what, "", fmt.Errorf("%w: the register has no limit of its own, so tags could take the room of leases", ErrDifferent))}
	}
	room := int64(info.State.Msgs) + max(info.Config.MaxBytes/10*9-int64(info.State.Bytes), 0)/tagBytes
	allowed := int64(0)
	for _, t := range c.Templates {
		if t.MaxTags == 0 {
			return []Diagnosis{c.diagnose(what, "", fmt.Errorf("%w: for about %d in all, but template %s has no limit", ErrFills, room, t.Pattern))}
		}
		allowed = store.Beyond(allowed, t.MaxTags)
	}
	if allowed > room {
		err = fmt.Errorf("%w: for about %d in all, but templates allow %d", ErrFills, room, allowed)
	}
	return []Diagnosis{c.diagnose(what, fmt.Sprintf("for about %d in all", room), err)}
}

// openAgreed opens the configuration bucket.
func (c *collection) openAgreed(ctx context.Context) (*agreement.Agreement, error) {
	return ask(ctx, c, rights.ReadBucket(agreement.BucketName(c.by.Prefix)), func(ctx context.Context) (*agreement.Agreement, error) {
		return agreement.Open(ctx, c.js, c.by.Prefix)
	})
}

// checkClock compares this machine's clock with the server's, which comes with
// a bucket. The check of the bucket reports that it is missing.
func (c *collection) checkClock(ctx context.Context) []Diagnosis {
	before := time.Now()
	bucket, err := c.openAgreed(ctx)
	if err != nil {
		return nil
	}
	off := (time.Since(before)/2 + before.Sub(bucket.ServerTime())).Round(time.Millisecond)
	return []Diagnosis{c.diagnose("clock", fmt.Sprintf("%v ahead of the server's", off), clockError(off, c.by.MaxClockSkew))}
}

// checkLayout compares the workers' layout with the installation's.
func (c *collection) checkLayout(context.Context) []Diagnosis {
	if c.by.Layout.IsZero() || !usesWorkerIDs(c.by.Role) {
		return nil
	}
	<-c.agreed.read
	installed, given, err := c.agreed.layout, c.by.Layout.String(), c.agreed.err
	switch {
	case err == nil && installed == "":
		installed = "none yet; the first worker sets it"
	case err == nil && installed != given:
		err = fmt.Errorf("%w: %.100s, expected %s", ErrOtherLayout, installed, given)
	}
	return []Diagnosis{c.diagnose("layout", installed, err)}
}

// checkStore checks that the store is the installation's and usable, that it
// keeps acknowledged writes in a crash, and that templates can create tags in it.
func (c *collection) checkStore(ctx context.Context) (all []Diagnosis) {
	if c.by.Store.Kind() == "" || !usesStore(c.by.Role) {
		return nil
	}
	bucket, err := c.openAgreed(ctx)
	var segments *backend.Segments
	if err == nil {
		read := register.Rights(c.by.Prefix, rights.Backup)
		segments, err = ask(ctx, c, read, func(ctx context.Context) (*backend.Segments, error) {
			if err := bucket.CheckStore(ctx, c.by.Store.Name()); err != nil {
				return nil, err
			}
			return c.by.Store.Open(ctx, register.Config{JetStream: c.js, Prefix: c.by.Prefix})
		})
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil // reported as a resource
	}
	if segments != nil {
		defer func() { _ = segments.Close() }() // nothing was written
	}
	if err == nil && segments.Database != nil {
		err = c.query(ctx, rights.Rights{}, segments.Database.Check)
	}
	all = []Diagnosis{c.diagnose("store", c.by.Store.Name()+" is usable", err)}
	if err != nil || segments.Database == nil {
		return all
	}
	err = c.query(ctx, rights.Rights{}, segments.Database.Durability)
	all = append(all, c.diagnose("store durability", "every commit is synced before it is acknowledged", err))
	<-c.agreed.read
	list := c.Templates
	err = cmp.Or(c.agreed.err, c.agreed.templatesErr)
	if err == nil && len(list) > 0 {
		err = c.query(ctx, rights.Rights{}, segments.Database.CheckFirst)
	}
	if err != nil || len(list) > 0 {
		all = append(all, c.diagnose("templates", fmt.Sprintf("%d, and the store can hold their tags", len(list)), err))
	}
	return all
}

// checkRequests sends a caller's requests: for its tag, or for any tag and for
// snowflake IDs.
func (c *collection) checkRequests(ctx context.Context) []Diagnosis {
	client := messages.NewClient(c.conn, c.by.Prefix)
	client.Log = slog.New(slog.DiscardHandler) // the check is the report
	tag := cmp.Or(c.by.Tag, "doctor")
	request := func(ctx context.Context) ([]messages.Range, error) { return client.NextN(ctx, tag, tooMany) }
	segment := c.by.Prefix.Segment(tag)
	if c.by.Tag != "" {
		return []Diagnosis{c.checkRequest(ctx, "requests for tag "+tag, segment, request)}
	}
	snowflake := func(ctx context.Context) ([]messages.Range, error) { return client.SnowflakeN(ctx, tooMany) }
	return []Diagnosis{
		c.checkRequest(ctx, "requests for tags", segment, request),
		c.checkRequest(ctx, "requests for snowflake IDs", c.by.Prefix.Snowflake(), snowflake),
	}
}

const (
	// tooMany is a count above every limit. Only a worker can refuse the
	// request, and no ID is lost.
	tooMany = math.MaxInt64

	// requestTimeout bounds a request: longer than a restart takes.
	requestTimeout = 2 * time.Second
)

// checkRequest sends a request that a worker refuses.
func (c *collection) checkRequest(ctx context.Context, what, subject string, send func(context.Context) ([]messages.Range, error)) Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := ask(ctx, c, rights.Publish(subject), send)
	refused, _ := errors.AsType[*messages.Error](err)
	switch {
	case refused != nil && refused.Code == messages.CodeMalformed:
		good := "a worker answers"
		if refused.MaxCount > 0 {
			good += fmt.Sprintf(" requests for 1 to %d IDs", refused.MaxCount)
		}
		return c.diagnose(what, good, nil)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return c.diagnose(what, "", err)
}
