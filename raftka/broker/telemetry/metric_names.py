"""Every metric of /metrics: name, type, what it tells. Names and labels are those that
jmx_exporter, kafka_exporter and Strimzi's rules give Kafka's own, so that dashboards made for these
go on; `raftka_` is ours. docs/metrics.csv has the same table; a test compares them. Knows no value.
"""

_TABLE = """
kafka_server_brokertopicmetrics_messagesin_total counter Records appended, by topic, and of all topics without the label.
kafka_server_brokertopicmetrics_bytesin_total counter Bytes of batches appended for producers, likewise.
kafka_server_brokertopicmetrics_bytesout_total counter Bytes of batches sent to consumers, likewise.
kafka_server_brokertopicmetrics_totalproducerequests_total counter Appends asked for: one for each partition of a Produce, likewise.
kafka_server_brokertopicmetrics_totalfetchrequests_total counter Reads asked for: one for each partition of a Fetch, likewise.
kafka_server_brokertopicmetrics_failedproducerequests_total counter Those that were refused, likewise.
kafka_server_brokertopicmetrics_failedfetchrequests_total counter Those that were refused, likewise.
kafka_server_brokertopicmetrics_totalsharefetchrequests_total counter ShareFetch requests.
kafka_server_brokertopicmetrics_failedsharefetchrequests_total counter Partitions of them that were refused.
kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total counter ShareAcknowledge requests.
kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total counter Partitions of them that were refused.
kafka_server_brokertopicmetrics_replicationbytesin_total counter Bytes of batches fetched from leaders.
kafka_server_brokertopicmetrics_replicationbytesout_total counter Bytes of batches sent to followers.
kafka_network_requestmetrics_requests_total counter Requests answered, by request (an API's name; Fetch is FetchConsumer and FetchFollower).
kafka_network_requestmetrics_totaltimems histogram Milliseconds from a request's last byte to its answer, by request.
kafka_server_delayedoperationpurgatory_purgatorysize gauge Requests that wait, by delayedOperation (Produce: partitions).
kafka_server_delayedoperationpurgatory_numdelayedoperations gauge The same.
kafka_server_fetchsessioncache_numincrementalfetchsessions gauge Fetch sessions, of consumers and followers.
kafka_server_fetchsessioncache_numincrementalfetchpartitionscached gauge Partitions in them.
kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total counter Sessions that had to make room for another.
kafka_server_sharesessioncache_sharesessionscount gauge Share sessions.
kafka_server_sharesessioncache_sharepartitionscount gauge Partitions in them.
raftka_share_partitions gauge Partitions of share groups that this broker leads and keeps in memory.
kafka_server_socket_server_metrics_connection_count gauge Open connections, by listener.
kafka_server_socket_server_metrics_connections_software gauge The same by clientSoftwareName and clientSoftwareVersion, as ApiVersions told them; unknown: it told none.
kafka_server_socket_server_metrics_connection_creation_total counter Connections accepted.
kafka_server_replicamanager_partitioncount gauge Replicas on this broker.
kafka_server_replicamanager_leadercount gauge Partitions that this broker leads.
kafka_server_replicamanager_underreplicatedpartitions gauge Of these, those with replicas outside the ISR.
kafka_server_replicamanager_underminisrpartitioncount gauge Of these, those with fewer in sync than min.insync.replicas: acks=all is refused.
kafka_server_replicamanager_atminisrpartitioncount gauge Of these, those with exactly as many.
kafka_server_replicamanager_reassigningpartitions gauge Of these, those that are being moved.
kafka_server_replicamanager_partitionswithlatetransactionscount gauge Of these, those with a transaction open for too long.
kafka_server_replicamanager_offlinereplicacount gauge Replicas whose log can not be used.
kafka_server_replicamanager_isrshrinks_total counter Times that a partition led here lost an ISR member.
kafka_server_replicamanager_isrexpands_total counter Times that a partition led here gained an ISR member.
kafka_server_replicamanager_failedisrupdates_total counter ISR changes that the controller refused or did not answer.
kafka_server_replicafetchermanager_maxlag gauge Records that the slowest partition followed here is behind its leader.
kafka_log_log_size gauge Bytes of a replica, by topic and partition.
kafka_log_log_numlogsegments gauge Its segments.
kafka_log_log_logstartoffset gauge Its first offset.
kafka_log_log_logendoffset gauge The offset that comes next.
kafka_log_logflushstats_logflushrateandtimems histogram Milliseconds of a flush of logs to the disk.
kafka_log_logmanager_offlinelogdirectorycount gauge Log directories in which a log can not be used.
kafka_cluster_partition_replicascount gauge Replicas of a partition that is led here, by topic and partition.
kafka_cluster_partition_insyncreplicascount gauge Those in sync.
kafka_cluster_partition_underreplicated gauge 1: not all are in sync.
kafka_cluster_partition_underminisr gauge 1: fewer are in sync than min.insync.replicas.
kafka_cluster_partition_atminisr gauge 1: exactly min.insync.replicas are.
kafka_topic_partition_current_offset gauge High watermark of a partition that is led here, by topic and partition.
kafka_topic_partition_oldest_offset gauge Its first offset.
kafka_topic_partition_leader gauge Its leader: this broker.
kafka_topic_partition_leader_is_preferred gauge 1: the first of its replicas leads.
kafka_topic_partition_replicas gauge Its replicas.
kafka_topic_partition_in_sync_replica gauge Those in sync.
kafka_topic_partition_under_replicated_partition gauge 1: not all are in sync.
kafka_consumergroup_members gauge Members of a group that this broker looks after, by consumergroup.
kafka_consumergroup_current_offset gauge Its committed offset, by consumergroup, topic and partition.
kafka_consumergroup_lag gauge Records of the partition behind that; where this broker has a replica of it.
kafka_coordinator_group_groupmetadatamanager_numgroups gauge Groups that this broker looks after.
kafka_coordinator_group_groupmetadatamanager_numoffsets gauge Their committed offsets.
kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance gauge Of the groups, those whose members are to join.
kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance gauge Those that wait for their leader's assignments.
kafka_coordinator_group_groupmetadatamanager_numgroupsstable gauge Those whose members have them.
kafka_coordinator_group_groupmetadatamanager_numgroupsempty gauge Those without members.
kafka_server_group_coordinator_metrics_partition_load_time_max gauge Milliseconds that the slowest coordinator of groups here loaded for.
kafka_server_group_coordinator_metrics_partition_load_time_avg gauge Their mean.
kafka_server_transaction_coordinator_metrics_partition_load_time_max gauge Milliseconds that the slowest of transactions did.
kafka_server_transaction_coordinator_metrics_partition_load_time_avg gauge Their mean.
kafka_server_share_coordinator_metrics_partition_load_time_max gauge Milliseconds that the slowest share coordinator did.
kafka_server_share_coordinator_metrics_partition_load_time_avg gauge Their mean.
kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize gauge Markers that no leader takes now.
kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize gauge Ended transactions to be logged.
kafka_server_addpartitionstotxnmanager_verificationfailurerate_total counter Transactions that a coordinator did not let begin in a partition.
kafka_topic_partitions gauge Partitions of a topic; on the active controller alone.
kafka_brokers gauge Brokers that are not fenced; on the active controller, 0 elsewhere.
kafka_broker_info gauge 1 for each registered broker, by id and address; on the active controller alone.
kafka_controller_kafkacontroller_activecontrollercount gauge 1: this node is the controller.
kafka_controller_kafkacontroller_activebrokercount gauge Brokers that are not fenced; on the active controller, 0 elsewhere, like those that follow.
kafka_controller_kafkacontroller_fencedbrokercount gauge Brokers that are fenced.
kafka_controller_kafkacontroller_globaltopiccount gauge Topics.
kafka_controller_kafkacontroller_globalpartitioncount gauge Partitions.
kafka_controller_kafkacontroller_offlinepartitionscount gauge Partitions without a leader.
kafka_controller_kafkacontroller_preferredreplicaimbalancecount gauge Partitions that another than their first replica leads.
kafka_controller_kafkacontroller_newactivecontrollerscount gauge Times that this node became the controller.
kafka_controller_controllerstats_uncleanleaderelections_total counter Leaders elected outside the ISR, while this node was the controller.
kafka_server_raftmetrics_current_state gauge 1, with the node's state as label current_state: leader, follower, candidate, observer.
kafka_server_raftmetrics_current_leader gauge The metadata leader, -1: unknown.
kafka_server_raftmetrics_current_epoch gauge Its term, as this node has it; -1 on an observer that nobody has told yet.
kafka_server_raftmetrics_current_vote gauge Whom this node has voted for in that term, -1: nobody.
kafka_server_raftmetrics_high_watermark gauge The last committed entry that this node knows.
kafka_server_raftmetrics_log_end_offset gauge The last entry of its log.
kafka_server_raftmetrics_append_records_rate gauge Entries a second that this node appended as leader, since the scrape before.
kafka_server_raftmetrics_fetch_records_rate gauge Entries a second that it got from the leader, since the scrape before.
kafka_server_raftmetrics_commit_latency_avg gauge Milliseconds from an entry's append to its commit, on the leader, since the scrape before.
kafka_server_raftchannelmetrics_incoming_byte_total counter Bytes that came on connections between nodes on the controller listeners.
kafka_server_raftchannelmetrics_outgoing_byte_total counter Bytes that went.
kafka_server_raftchannelmetrics_request_total counter Messages that went.
kafka_server_raftchannelmetrics_response_total counter Messages that came.
kafka_server_brokermetadatametrics_last_applied_record_offset gauge The last metadata entry that this node has applied.
kafka_server_kafkaserver_brokerstate gauge 3: serving; 1: registered and fenced, or starting (Kafka's numbers).
kafka_network_socketserver_networkprocessoravgidle_percent gauge Share of one core that the process left idle since the scrape before, 0 to 1.
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent gauge The same: one thread does both.
kafka_server_kafkaserver_linux_disk_read_bytes gauge Bytes that the process has had read from disks.
kafka_server_kafkaserver_linux_disk_write_bytes gauge Bytes that the process has had written to disks.
kafka_server_client_metrics_instance_count gauge Clients with an instance id, that ask for subscriptions or push their metrics.
raftka_client_metrics_series gauge Series of clients on this page: kafka_client_ and the client's name of it.
raftka_client_metrics_pushes_total counter Pushes of clients that were taken.
raftka_client_metrics_throttled_total counter Those, and questions for subscriptions, that came before the interval was over.
raftka_client_metrics_unknown_subscriptions_total counter Pushes for a subscription that is not the client's.
raftka_client_metrics_invalid_pushes_total counter Pushes that could not be read.
raftka_otlp_pushes_total counter Pushes that the collector of raftka.telemetry.otlp.endpoint has taken.
raftka_otlp_failures_total counter Requests to it that it has not answered with success; those of pushes that wait are made anew.
raftka_metadata_commit_seconds histogram Seconds from a metadata entry's append to its commit, while this node was the controller.
raftka_metadata_proposals_waiting gauge Metadata entries of this node's log that are not committed.
raftka_held_answers_seconds histogram Seconds for which Metadata and FindCoordinator were held, because they named a broker that seemed to have died.
raftka_delayed_records_pending gauge Records of delayed topics that are led here and wait for their time.
raftka_delayed_records_delivered_total counter Records that were delivered at their time.
raftka_delayed_lateness_seconds histogram Seconds from a record's time to the append that delivers it.
raftka_leader_elections_total counter Partitions that got another leader, while this node was the controller.
raftka_segments_deleted_total counter Segments that retention has deleted.
raftka_segments_rolled_total counter Segments that were completed.
raftka_compactions_total counter Rounds of compaction that were finished.
raftka_compaction_bytes_read_total counter Bytes that compaction has read, those that it looks at twice counted twice.
raftka_compaction_bytes_written_total counter Bytes of new segments that it has written.
raftka_compaction_failures_total counter Rounds that failed; the log tells whether the partition is left alone from then on.
raftka_compaction_unreadable_batches_total counter Batches that it kept as they were, because their records cannot be read.
raftka_truncations_total counter Times that a follower cut its log back to its leader's.
raftka_log_failures_total counter Logs that could not be written any more.
raftka_coordinator_unreadable_records_total counter Records of groups that could not be read when they were loaded.
raftka_turntimems histogram Milliseconds of a turn of the loop: so long other connections have waited.
raftka_long_turns_total counter Pieces of a turn of more than 100 ms; the log names each of them.
raftka_authentications_total counter Logins by SASL that succeeded.
raftka_failed_authentications_total counter Those that failed.
raftka_schema_lookups_total counter Questions to a schema registry, for topics with schema validation.
raftka_schema_lookup_failures_total counter Those without an answer of any registry: the records were refused for now.
raftka_schema_rejected_records_total counter Records of clients that their topic's schemas refuse.
raftka_schema_dead_letters_total counter Those that became records of a dead letter topic in place of a refusal.
raftka_share_dead_letters_total counter Records that share groups gave up and that were written to their dead-letter topics.
raftka_share_dead_letters_lost_total counter Those that could not be written; the log tells why.
raftka_tls_handshakes_total counter TLS handshakes with clients that succeeded.
raftka_failed_tls_handshakes_total counter Those that failed, and connections that broke off because a record was wrong.
raftka_throttled_by_producer_byte_rate_total counter Requests whose client has to wait because of its producer_byte_rate.
raftka_throttled_by_consumer_byte_rate_total counter Likewise of its consumer_byte_rate: the answer was empty.
raftka_throttled_by_request_percentage_total counter Likewise of its request_percentage.
raftka_throttled_by_controller_mutation_rate_total counter Topics that were refused or delayed by a controller_mutation_rate.
raftka_throttled_connections_total counter Connections that were closed because of an address's connection_creation_rate.
raftka_throttle_milliseconds_total counter Milliseconds that clients were told to wait, over all answers.
raftka_certificate_expiry_timestamp_seconds gauge When this node's own certificate ends, since the epoch, by listener; outgoing: to other brokers.
raftka_handler_errors_total counter Requests and commands that failed by a mistake of ours.
raftka_protocol_errors_total counter Client connections closed because of what came on them.
raftka_controller_refusals_total counter Strangers turned away at the controller listener.
raftka_http_errors_total counter Requests to the metrics port that were none.
raftka_http_failed_authentications_total counter Logins at the metrics port, or at the bridge's pages, that failed.
raftka_transactional_ids gauge Transactional ids that this broker looks after, by state; Ongoing: those with an open transaction.
raftka_transaction_markers_queued gauge Markers that wait for the answer to a request in flight, over all other brokers.
raftka_producers gauge Idempotent producers that are remembered, over all partitions here.
raftka_wall_clock_seconds gauge The node's clock, since the epoch, when this page was asked for.
process_cpu_seconds_total counter Processor time.
process_resident_memory_bytes gauge Memory.
process_virtual_memory_bytes gauge Address space.
process_start_time_seconds gauge When the process started, since the epoch.
process_open_fds gauge Open files and connections.
process_max_fds gauge How many it may have.
"""

FAMILIES: dict[str, tuple[str, str]] = {}  # name: (type, help)
for _line in _TABLE.strip().splitlines():
    _name, _type, _help = _line.split(maxsplit=2)
    FAMILIES[_name] = (_type, _help)
