// What can be chosen: a bench of one's own, and the scenarios of five papers. A preset is a scenario
// file, values over it as with `--set`, and which keys the page's controls are.

export const NAMES = ["wifi", "lte", "dsl", "sat"];
const LINKS = {
  wifi: { rate: "30Mbps", delay: "8ms", queue: "100 packets" },
  lte: { rate: "15Mbps", delay: "35ms", queue: "200 packets" },
  dsl: { rate: "8Mbps", delay: "20ms", queue: "60 packets" },
  sat: { rate: "20Mbps", delay: "270ms", queue: "400 packets" },
};
export const TRAFFIC = new Map([
  ["bulk", 'bulk = "unlimited"'],
  ["file", 'bulk = "20MB"'],
  ["video", 'request = { size = "4MB", request = "200B", think = "0.5s", count = 100000 }'],
  ["voice", 'paced = { rate = "500kbps", message = "1000B" }'],
]);

/** The scenario file of the bench with so many links. */
export function bench(count, traffic) {
  const links = NAMES.slice(0, count).map((name) => {
    const { rate, delay, queue } = LINKS[name];
    return `[link.${name}]\nrate = "${rate}"\ndelay = "${delay}"\nqueue = "${queue}"\n`;
  });
  return `name = "bench"\nabout = "Links, and what runs over them"\nseed = 1\nduration = "3600s"\n
${links.join("\n")}
[defaults]\nscheduler = "necf"\ncongestion = "cubicd"\n
[host.client]\negress = "own"\n
[[flow]]\nname = "download"\n${TRAFFIC.get(traffic)}\n`;
}

// As crates/papers/src/hayack/mod.rs has it: A with B's stack, and buffers that limit nobody.
const LARGE = [
  "host.a.tcp.sack=true",
  "host.a.tcp.send_buffer=8MiB",
  "host.a.tcp.initial_window=10",
  "host.a.tcp.initial_ssthresh=1GB",
  "host.a.tcp.rto_min=200ms",
  "host.c.tcp.sack=true",
  "host.c.tcp.mss=1460",
  "host.c.tcp.receive_buffer=8MiB",
  "host.c.tcp.receive_buffer_max=8MiB",
  "host.c.tcp.ack_delay=40ms",
  "host.c.tcp.quick_acks=16",
  "host.d.tcp.linux.rmem=4096 8388608 8388608",
  "host.b.tcp.linux.wmem=4096 8388608 8388608",
];

// Claims are those of the papers' reports, which are in English; here is the Japanese for them.
export const PRESETS = [
  {
    id: "free",
    name: { en: "Your own links", ja: "自分の回線" },
    text: { en: "Two to four links with what you like on them. Change anything while it runs.",
            ja: "2 本から 4 本の回線に、好きな通信を流します。実行中でも何でも変えられます。" },
    policies: { egress: { key: "host.client.egress", hosts: [{ host: "client" }] } },
  },
  {
    id: "bicast", file: "papers/bicast/table.toml", paper: "bicast",
    name: { en: "Bicast", ja: "バイキャスト" },
    text: { en: "A file over Wi-Fi that loses packets, with LTE as a backup. The client sends its ACKs by one path, or by both (bicast): choose under ACK path.",
            ja: "パケットを失う Wi-Fi でのファイル転送。LTE はバックアップです。クライアントは ACK を片方の経路、または両方の経路（bicast）で返します。" },
    sets: { "link.wifi.up.loss": "10%", "link.wifi.down.loss": "5%", "host.client.egress": "bicast",
            "flow.0.bulk": "50MB" },
    split: { wifi: ["loss"] },
    policies: { egress: { key: "host.client.egress", hosts: [{ host: "client" }] } },
    variants: [
      { id: "50MB", label: "50 MB", sets: {} },
      { id: "500MB", label: "500 MB", sets: { "flow.0.bulk": "500MB" } },
    ],
    claims: [
      { id: "never-slower", ja: "bicast のほうが遅くならない条件の数（0.1 秒まで）", published: "66 条件すべて" },
      { id: "worst-cell", ja: "最悪の条件（上り 10 %、下り 5 %）で、bicast なしの時間は bicast ありの何倍か" },
      { id: "uplink-hardly-matters", ja: "bicast ありの転送時間が、上り損失率によって変わる割合（最大の列）" },
      { id: "gain-without-uplink-loss", ja: "上り損失 0 %、下り損失 5 % で bicast が縮める時間の割合" },
    ],
    figure: "loss",
  },
  {
    id: "hayack", file: "papers/hayack/shared.toml", paper: "hayack",
    name: { en: "HayACK", ja: "HayACK" },
    text: { en: "Link1 is shared by a TCP flow and the first subflow of a multipath flow, which may return its ACKs by Link2. Is that fair? Link1's round trip is what matters.",
            ja: "Link1 は TCP と、マルチパスの 1 本目のサブフローが共有します。マルチパスは ACK を Link2 で返せます。それは公平でしょうか。Link1 の往復時間が鍵です。" },
    sets: { "defaults.egress": "hayack:own=0,margin=0,decisions=1", "link.link1.delay": "50ms",
            "flow.0.start": "100ms", "flow.1.start": "200ms" },
    policies: { egress: { key: "defaults.egress", hosts: [{ host: "b" }, { host: "d" }] } },
    choices: { egress: ["own", "hayack:own=0,margin=0,decisions=1", "hayack", "hayack-fair"] },
    variants: [
      { id: "large", label: { en: "large buffers", ja: "大きなバッファ" }, raw: LARGE },
      { id: "stated", label: { en: "as the paper states", ja: "論文のとおり" }, raw: [] },
    ],
    claims: [
      { id: "equal", ja: "両経路が等しい 5 ms では、HayACK は公平" },
      { id: "above", ja: "100 ms 以上では、HayACK が常に TCP を上回る（100、250、350 ms）", published: "常に" },
      { id: "steady", ja: "Link2 のスループットは安定（1 秒ごとの値の標準偏差、平均に対する割合）", published: "安定" },
      { id: "ceiling", ja: "350 ms では HayACK にタイムアウトがなく、Link1 の送信バイト数は増え続ける", published: "なし" },
    ],
    figure: "jain",
  },
  {
    id: "ecf3", file: "papers/ecf3/heterogeneous.toml", paper: "ecf3",
    name: { en: "ECF for three", ja: "3 経路の ECF" },
    text: { en: "A file over 8.6, 0.3 and 0.1 Mbit/s: the slow links help little, and cost much if the end of the file waits for them.",
            ja: "8.6、0.3、0.1 Mbit/s の 3 回線でのファイル転送。遅い回線はほとんど役に立たず、最後のデータがそこで待つと大きく遅れます。" },
    sets: { "defaults.scheduler": "ecf3:backlog=131072", "flow.0.bulk": "10MB" },
    choices: { scheduler: ["minrtt", "ecf3:backlog=131072", "ecf:backlog=131072", "necf", "blest", "stms", "roundrobin", "redundant"] },
    variants: ["10MB", "20MB", "40MB"].map((size) =>
      ({ id: size, label: size.replace("MB", " MB"), sets: { "flow.0.bulk": size } })),
    claims: [
      { id: "heterogeneous-minrtt", ja: "不均一な回線では、提案方式の時間は minRTT より約 9 % 短い" },
      { id: "heterogeneous-single", ja: "不均一な回線では、提案方式の時間は最速の経路だけの場合と同じ" },
      { id: "heterogeneous-ecf", ja: "不均一な回線では、提案方式の時間は 2 経路の ECF と同じ" },
      { id: "held-back", ja: "遅い回線は抑えられる（提案方式が遅い回線で運ぶ量、minRTT に対する割合）", published: "より少ない" },
    ],
    figure: "sizes",
  },
  {
    id: "two_wans", file: "papers/two_wans/bundle.toml", paper: "two_wans",
    name: { en: "Two WANs", ja: "2 本の WAN" },
    text: { en: "FTTH (230 Mbit/s) and VDSL (80 Mbit/s) as one. Why is it only about half of the sum at first? A second tunnel over FTTH helps.",
            ja: "FTTH（230 Mbit/s）と VDSL（80 Mbit/s）を束ねます。なぜ最初は合計の半分ほどなのでしょう。FTTH 上の 2 本目のトンネルが効きます。" },
    sets: {},
    variants: [
      { id: "one", label: { en: "a tunnel a WAN", ja: "WAN ごとに 1 本" }, raw: [] },
      { id: "extra", label: { en: "an extra tunnel", ja: "トンネルを追加" },
        raw: ['path={ ftth=["ftth"], vdsl=["vdsl"], extra=["ftth"] }'] },
    ],
    claims: [
      { id: "bundle", ja: "WAN ごとに 1 トンネルでは、310 Mbit/s のうち約 150 Mbit/s しか出ない" },
      { id: "reaches", ja: "トンネルを 1 本足すと、長い転送はゆっくり上がって 290 Mbit/s に届く" },
      { id: "long-mean", ja: "トンネルを 1 本足すと、長い転送の平均は約 200 Mbit/s" },
      { id: "subflows", ja: "転送が長いほど、多くのサブフローが使われる", published: "より多い" },
    ],
    figure: "bundle",
  },
  {
    id: "proxies", file: "papers/proxies/path.toml", paper: "proxies",
    name: { en: "TCP proxies", ja: "TCP プロキシ" },
    text: { en: "Small socket buffers over 70 Mbit/s, Osaka to Okinawa: two proxies next to the hosts split the connection, with high-speed TCP between them.",
            ja: "小さなソケットバッファで 70 Mbit/s、大阪から沖縄へ。ホストの隣の 2 台のプロキシがコネクションを分割し、その間で高速 TCP を使います。" },
    sets: { "host.sender.tcp.linux.so_sndbuf": "64KiB", "host.receiver.tcp.linux.so_rcvbuf": "64KiB",
            "link.emulator.delay": "12.5ms", "proxy.west.connect.congestion": "highspeed" },
    main: ["internet", "emulator"],
    policies: { congestion: { key: "proxy.west.connect.congestion", hosts: [{ host: "west", side: "connect" }] },
                scheduler: null, egress: null },
    choices: { congestion: ["reno", "highspeed", "ghstcp", "cubic", "bbr"] },
    variants: [
      { id: "proxies", label: { en: "by two proxies", ja: "プロキシ 2 台" }, raw: ['flow.0.via=["west","east"]'] },
      { id: "direct", label: { en: "direct", ja: "直接" }, raw: ["flow.0.via=[]"] },
    ],
    claims: [
      { id: "direct-43", ja: "直接、43 ms：512 KB のソケットバッファでも回線を満たせない（Reno）", published: "大きなバッファでも満たせない（Reno）" },
      { id: "proxied-43", ja: "プロキシ経由、43 ms、Reno：直接より速いが、回線には届かない", published: "直接より速いが、回線には届かない" },
      { id: "highspeed", ja: "プロキシ経由、43 ms：HSTCP は Reno より速い", published: "プロキシ間では Reno より良い" },
      { id: "ghstcp", ja: "プロキシ経由、43 ms：gHSTCP は HSTCP より速い", published: "HSTCP より良い" },
    ],
    figure: "buffers",
  },
];

export const preset = (id) => PRESETS.find((one) => one.id === id);

/** Where the page's choice of a policy goes: the key at the start, the hosts while it runs. */
export function target(one, kind) {
  const own = one?.policies?.[kind];
  if (own === null) return null;
  return own ?? { key: `defaults.${kind}`, hosts: null };
}
