package rights

// The requests of the JetStream API behind operations on streams and buckets.

// API is the subject of a request to the JetStream API.
func API(request string) string { return "$JS.API." + request }

// StreamInfo is the request that opens a stream.
func StreamInfo(stream string) string { return API("STREAM.INFO." + stream) }

// ConsumerInfo is the request that opens a durable consumer.
func ConsumerInfo(stream, consumer string) string {
	return API("CONSUMER.INFO." + stream + "." + consumer)
}

// ReadLeader reads single messages from the leader.
func ReadLeader(stream string) Rights { return Publish(API("STREAM.MSG.GET." + stream)) }

// ProvisionStream creates a stream, or changes its settings.
func ProvisionStream(stream string) Rights {
	return Publish(StreamInfo(stream), API("STREAM.CREATE."+stream), API("STREAM.UPDATE."+stream))
}

// ReadBucket opens a bucket and reads keys from the leader.
func ReadBucket(bucket string) Rights {
	return Join(Publish(StreamInfo("KV_"+bucket)), ReadLeader("KV_"+bucket))
}

// PeekBucket opens a bucket and reads keys from any replica.
func PeekBucket(bucket string) Rights {
	return Publish(StreamInfo("KV_"+bucket), API("DIRECT.GET.KV_"+bucket+".>"))
}

// WatchBucket opens a bucket, and lists or watches all of it.
func WatchBucket(bucket string) Rights {
	return Publish(
		StreamInfo("KV_"+bucket),
		API("CONSUMER.CREATE.KV_"+bucket+".>"), "$JS.FC.KV_"+bucket+".>",
	)
}

// WriteBucket writes keys, which may have wildcards; ">" is all of them.
func WriteBucket(bucket string, keys ...string) (r Rights) {
	for _, key := range keys {
		r.Publish = append(r.Publish, "$KV."+bucket+"."+key)
	}
	return r
}

// ProvisionBucket creates a bucket, or changes its settings.
func ProvisionBucket(bucket string) Rights { return ProvisionStream("KV_" + bucket) }
