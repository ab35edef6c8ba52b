// What the page says, in English and Japanese. A key that is missing in one is an error of the test.

const EN = {
  title: "tabane playground",
  tagline: "Several links as one: the simulator, live in this page",
  scenarios: "Scenarios", play: "Run", pause: "Pause", restart: "Restart",
  speed: "Speed", fastest: "as fast as it goes", seed: "Seed",
  policies: "Policies", scheduler: "Scheduler", congestion: "Congestion control",
  egress: "ACK path", traffic: "Traffic", linksCount: "Links", variant: "Variant",
  share: "Copy link", toml: "Open as TOML", copied: "Copied", theme: "Dark or light",
  language: "日本語", help: "Keys", close: "Close",
  links: "Links", morelinks: "Further links", curves: "Curves", events: "Events",
  rate: "Rate", delay: "Delay, one way", loss: "Loss", queue: "Queue",
  lossUp: "Loss ↑", lossDown: "Loss ↓",
  plugged: "plugged in", unplugged: "unplugged", plug: "Plug of {0}",
  goodput: "Goodput", windows: "Congestion window", rtt: "Round trip", queues: "Queue",
  total: "total", packets: "packets",
  running: "running", paused: "paused", ended: "ended at {0} s", starting: "loading the simulator …",
  dotsHint: "Slow down to 1/10 or less to see packets travel",
  noDots: "No packet is on its way",
  legendData: "data", legendAck: "ACK",
  "state.absent": "no subflow yet", "state.opening": "subflow opens",
  "state.down": "the link is down", "state.closed": "its subflow is closed",
  "state.backup": "idle: it is a backup and an active one lives",
  "state.failed": "idle: its data went unanswered",
  "state.quiet": "nothing to send", "state.only": "only what comes back passes here",
  "state.idle": "idle: {0}", "state.idleNo": "idle",
  "state.carries": "carries {0} % of the data", "state.sends": "carries all data of its flow",
  "state.carriesNot": "carries {0} % of the data; else {1} ({2} %)",
  "state.carriesElse": "carries {0} % of the data; else {1}",
  "state.ended": "the run is over", "state.shared": "{0}: {1}",
  "tomlHead": "The run as a scenario file",
  "tomlText": "With the changes made by hand at their times: tabane sim run gives the same result, byte for byte. Edit it, and open it here.",
  "tomlOpen": "Open this", "tomlCopy": "Copy", "tomlSave": "Save as file", "tomlLink": "Copy link to this run",
  "tomlError": "It does not open: {0}",
  "result": "Result", "resultSave": "Save result.json", "completed": "done after {0} s", "mean": "mean {0}",
  "failed": "failed: {0}", "cli": "On the command line",
  "keysHead": "Keys", "keys.space": "run, pause", "keys.speed": "slower, faster",
  "keys.plug": "plug of the link with that number", "keys.r": "restart", "keys.t": "open as TOML",
  "keys.l": "language", "keys.d": "dark, light", "keys.h": "this list",
  "traffic.bulk": "download without end", "traffic.file": "a file of 20 MB",
  "traffic.video": "video in chunks", "traffic.voice": "a steady 500 kbit/s",
  "paper": "The paper", "claims": "What it says, and what comes of it here",
  "claim": "claim", "published": "paper", "ours": "ours", "verdict": "verdict",
  "thisRun": "this run", "solid": "solid: simulated, dashed: published",
  "verdict.reproduced": "reproduced", "verdict.fitted": "fitted",
  "verdict.partly": "partly", "verdict.not": "differs", "verdict.cannot": "unknown",
  "event.change": "{0}", "event.established": "{0}: subflow established",
  "event.closed": "{0}: subflow closed ({1})", "event.backup": "{0}: is a backup now",
  "event.active": "{0}: is active now", "event.stale": "{0}: does not answer",
  "event.answers": "{0}: answers again", "event.fallback": "{0}: plain TCP ({1})",
  "event.ended": "{0}: connection closed ({1})", "event.completed": "{0}: all delivered",
  noEvents: "none yet",
  others: "own policies: {0}", hops: "{0} M packet-hops/s", engine: "The engine's default",
  wasmFailed: "The simulator stopped: {0}. Restart begins anew.",
  refused: "It does not run: {0} (choosing a scenario begins afresh)", stopped: "not running",
  notDone: "That cannot be done: {0}", leftOut: "Left out of the address, as it cannot be: {0}",
  badSeed: "A seed is a whole number from 0 to 9223372036854775807",
  chartNow: "{0}: {1}", offline: "This page computes everything here; nothing is sent anywhere.",
};

const JA = {
  title: "tabane プレイグラウンド",
  tagline: "複数の回線をひとつに。シミュレーターがこのページの中で動きます",
  scenarios: "シナリオ", play: "実行", pause: "一時停止", restart: "最初から",
  speed: "速さ", fastest: "できるだけ速く", seed: "シード",
  policies: "方式", scheduler: "スケジューラ", congestion: "輻輳制御",
  egress: "ACK の経路", traffic: "通信", linksCount: "回線数", variant: "条件",
  share: "リンクをコピー", toml: "TOML で開く", copied: "コピーしました", theme: "明暗",
  language: "English", help: "キー", close: "閉じる",
  links: "回線", morelinks: "ほかの回線", curves: "グラフ", events: "できごと",
  rate: "速度", delay: "片道遅延", loss: "損失率", queue: "キュー",
  lossUp: "損失率 ↑", lossDown: "損失率 ↓",
  plugged: "接続中", unplugged: "切断中", plug: "{0} の接続",
  goodput: "グッドプット", windows: "輻輳ウィンドウ", rtt: "往復時間", queues: "キュー",
  total: "合計", packets: "パケット",
  running: "実行中", paused: "一時停止中", ended: "{0} 秒で終了", starting: "シミュレーターを読み込んでいます…",
  dotsHint: "速さを 1/10 以下にすると、パケットの動きが見えます",
  noDots: "移動中のパケットはありません",
  legendData: "データ", legendAck: "ACK",
  "state.absent": "サブフローはまだありません", "state.opening": "サブフローを開設中",
  "state.down": "回線が切れています", "state.closed": "サブフローは閉じられました",
  "state.backup": "待機中：バックアップで、通常のサブフローが生きているため",
  "state.failed": "待機中：送ったデータに応答がないため",
  "state.quiet": "送るデータがありません", "state.only": "戻りのパケットだけが通ります",
  "state.idle": "待機中：{0}", "state.idleNo": "待機中",
  "state.carries": "データの {0} % を運んでいます", "state.sends": "このフローの全データを運んでいます",
  "state.carriesNot": "データの {0} % を運んでいます。ほかは{1}（{2} %）",
  "state.carriesElse": "データの {0} % を運んでいます。ほかは{1}",
  "state.ended": "実行は終わりました", "state.shared": "{0}：{1}",
  "tomlHead": "この実行のシナリオファイル",
  "tomlText": "手で加えた変更も、その時刻とともに入っています。tabane sim run で 1 バイトも違わない結果になります。編集してここで開くこともできます。",
  "tomlOpen": "これを開く", "tomlCopy": "コピー", "tomlSave": "ファイルに保存", "tomlLink": "この実行へのリンクをコピー",
  "tomlError": "開けません：{0}",
  "result": "結果", "resultSave": "result.json を保存", "completed": "{0} 秒で完了", "mean": "平均 {0}",
  "failed": "失敗：{0}", "cli": "コマンドラインでは",
  "keysHead": "キー操作", "keys.space": "実行・一時停止", "keys.speed": "遅く・速く",
  "keys.plug": "その番号の回線の抜き差し", "keys.r": "最初から", "keys.t": "TOML で開く",
  "keys.l": "言語", "keys.d": "明暗", "keys.h": "この一覧",
  "traffic.bulk": "終わりのないダウンロード", "traffic.file": "20 MB のファイル",
  "traffic.video": "動画（チャンクごと）", "traffic.voice": "一定の 500 kbit/s",
  "paper": "論文", "claims": "論文の主張と、ここでの結果",
  "claim": "主張", "published": "論文", "ours": "本実装", "verdict": "判定",
  "thisRun": "この実行", "solid": "実線：シミュレーション、破線：論文の値",
  "verdict.reproduced": "再現", "verdict.fitted": "調整済み",
  "verdict.partly": "一部再現", "verdict.not": "相違", "verdict.cannot": "不明",
  "event.change": "{0}", "event.established": "{0}：サブフロー確立",
  "event.closed": "{0}：サブフロー終了（{1}）", "event.backup": "{0}：バックアップになりました",
  "event.active": "{0}：通常のサブフローになりました", "event.stale": "{0}：応答がありません",
  "event.answers": "{0}：応答が戻りました", "event.fallback": "{0}：通常の TCP になりました（{1}）",
  "event.ended": "{0}：コネクション終了（{1}）", "event.completed": "{0}：すべて届きました",
  noEvents: "まだありません",
  others: "個別の方式：{0}", hops: "毎秒 {0} M パケットホップ", engine: "エンジンの既定",
  wasmFailed: "シミュレーターが停止しました：{0}。「最初から」でやり直せます。",
  refused: "実行できません：{0}（シナリオを選ぶと、最初からやり直せます）", stopped: "停止中",
  notDone: "変更できません：{0}", leftOut: "アドレスのうち、使えないものを除きました：{0}",
  badSeed: "シードは 0 から 9223372036854775807 までの整数です",
  chartNow: "{0}：{1}", offline: "計算はすべてこのページの中で行われ、どこにも送信されません。",
};

// The engine's reasons in Japanese; in English its own words are shown.
const WHY_JA = {
  no_room: "ウィンドウに空きがないため",
  slower: "ほかの経路の往復時間のほうが短いため",
  not_its_turn: "順番ではないため",
  backup: "バックアップで、通常のサブフローが生きているため",
  suspect: "送ったデータに応答がないため",
  waiting_is_faster: "{0} を待つほうが平均 {1} ms 早く届くため",
  would_block: "{0} のためのウィンドウをふさいでしまうため",
  later: "ほかの経路のほうが早く届くため",
  other_chosen: "ほかの経路が選ばれたため",
};

const POLICY_JA = {
  minrtt: "空きのある中で往復時間が最短のもの", roundrobin: "順番に", redundant: "全データを全経路で",
  blest: "minrtt、ただしウィンドウをふさぐなら待つ", ecf: "minrtt、ただし最速を待つほうが早ければ待つ（Linux）",
  ecf3: "3 本のサブフローのための ECF（論文どおり）", necf: "最も早く確認応答されるもの。速い経路全部を待つほうが早ければ待つ",
  stms: "遅い経路は、届くころに必要になるデータを運ぶ", sttf: "最も早く届くもの（ウィンドウの成長を予測）",
  otias: "最も早く届くもの（今のウィンドウで）", daps: "送り出せる順にウィンドウを使う", burst: "64 KiB ずつ、早く空くキューへ（Linux）",
  reno: "1 往復に 1 セグメント増、損失で半分", cubic: "前回の最大値を中心に 3 次関数で増加", cubicq: "cubic、ただしキューのない損失では減らさない",
  cubicd: "相手がいれば cubic、単独ならキューを短く保つ", highspeed: "38 セグメントを超えると速く増える", ghstcp: "往復時間が伸びるまで HighSpeed、その後 Reno",
  lia: "連成：全体で最良経路の TCP 1 本分", olia: "連成：最良の経路へウィンドウを移す", balia: "連成：lia と olia の間",
  wvegas: "遅延による連成", bbr: "帯域と往復時間のモデルで送出（BBRv3）",
  own: "どのセグメントも自分の経路で", bicast: "どのセグメントも全経路で", "bicast-ack": "純粋な ACK は全経路で",
  hayack: "純粋な ACK は往復時間最短の経路で", "hayack-fair": "hayack、ただしウィンドウは自分の経路のときと同じに増える",
};

const ALL = { en: EN, ja: JA };
let language = "en";

export const languages = Object.keys(ALL);
export const keys = () => languages.map((name) => Object.keys(ALL[name]).sort().join());
export const current = () => language;
export function use(name) { language = Object.hasOwn(ALL, name) ? name : "en"; }

/** A text with its {0}, {1} filled in. */
export function t(key, ...values) {
  const text = ALL[language][key] ?? EN[key] ?? key;
  return text.replace(/\{(\d)\}/g, (_, n) => values[n] ?? "");
}

/** A reason why a subflow was not given data. */
export function why(reason) {
  if (language !== "ja") return reason.words;
  const text = WHY_JA[reason.key] ?? reason.words;
  return text.replace("{0}", reason.path ?? "").replace("{1}", (reason.gain_ms ?? 0).toFixed(1));
}

/** One line about a policy. */
export const policy = (name, summary) => (language === "ja" && POLICY_JA[name]) || summary;

/** What a preset says of itself, in the language that is in use. */
export const own = (texts) => (typeof texts === "string" ? texts : texts[language] ?? texts.en);
