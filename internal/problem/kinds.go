package problem

// The kinds of problems. Some only select the exit code of a command.
const (
	Invalid   Kind = "invalid"   // a request, a setting or an argument
	NotFound  Kind = "not found" // a tag or a template
	TryLater  Kind = "try later"
	Exhausted Kind = "exhausted" // a tag's numbers are used up

	// Connecting and rights.
	LoginRefused   Kind = "login refused"
	Denied         Kind = "denied"
	DeniedCreation Kind = "denied creation"
	DeniedInbox    Kind = "denied inbox"
	NotProvisioned Kind = "not provisioned"
	Neighbours     Kind = "neighbours" // two installations on the same subjects
	// Two installations that issue snowflake IDs.
	DatacenterTaken Kind = "datacenter taken"
	RegionLayout    Kind = "region layout"

	// The embedded server and its data.
	PortOfIdworker  Kind = "port of idworker" // address
	PortOfNATS      Kind = "port of NATS"     // server, address
	PortOfOther     Kind = "port of other"
	FolderInUse     Kind = "folder in use"
	FolderGone      Kind = "folder gone"
	FolderDamaged   Kind = "folder damaged" // flags for the folder
	WitnessGone     Kind = "witness gone"   // flags for the folder
	WitnessUnusable Kind = "witness unusable"
	Witnessed       Kind = "witnessed" // by a witness of an installation that is gone
	DiskFull        Kind = "disk full"
	DiskReadOnly    Kind = "disk read-only"

	// Streams and buckets.
	MayForget     Kind = "may forget"
	ExpiryMissing Kind = "expiry missing"
	EntriesExpire Kind = "entries expire" // stream
	Discards      Kind = "discards"       // stream
	BucketGone    Kind = "bucket gone"
	ClockGone     Kind = "clock gone"
	RegisterGone  Kind = "register gone"
	ConfigGone    Kind = "config gone" // bucket
	Regressed     Kind = "regressed"
	MustRaise     Kind = "must raise"
	Raising       Kind = "raising"
	RaiseUndone   Kind = "raise undone"
	NoneToRaise   Kind = "none to raise"    // no installation
	PinnedNone    Kind = "pinned, but none" // the pinned ID
	PinnedOther   Kind = "pinned to other"  // the ID that was found
	NoIdentity    Kind = "no identity"
	NotSynced     Kind = "not synced"
	OldServer     Kind = "old server"
	StorageFull   Kind = "storage full"
	ServerFull    Kind = "server full"
	Fills         Kind = "fills" // the register, by tags of templates
	TooFewCopies  Kind = "too few copies"
	CopiesDiffer  Kind = "copies differ"
	SmallPayload  Kind = "small payload" // of a NATS server
	Different     Kind = "different"

	// The store.
	ForeignStore   Kind = "foreign store"
	NoTable        Kind = "no table"
	UnsafeSetting  Kind = "unsafe setting" // setting, required value
	UnknownSetting Kind = "unknown setting"

	// Tags.
	TemplateFull Kind = "template full" // the template
	Below        Kind = "below"         // lowest first ID
	UsedUp       Kind = "used up"
	OtherOrder   Kind = "other order" // the order
	MaybeCreated Kind = "maybe created"
	NotTold      Kind = "not told"
	LoadersRun   Kind = "loaders run"

	// Workers.
	NobodyAnswers Kind = "nobody answers"
	EpochAhead    Kind = "epoch ahead"
	OtherLayout   Kind = "other layout"
	RunsOut       Kind = "runs out"
	WorkerIDHeld  Kind = "worker ID held"
	ClockLost     Kind = "clock lost" // time to wait, key, bucket
	Exposed       Kind = "exposed"    // to other machines

	// Enrichment.
	Unproven      Kind = "unproven"
	Undecided     Kind = "undecided"
	NoDeadLetters Kind = "no dead letters"
	NoTarget      Kind = "no target"
	NoBatches     Kind = "no batches" // stream
)
