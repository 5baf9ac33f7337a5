// The texts of the pages, in English and Chinese.

const TRANSLATIONS = {
  heads: ["Heads", "注意力头"], head: ["Head {0}", "头 {0}"], layer: ["Layer", "层"],
  oneLayer: ["Layer {0}", "第 {0} 层"], oneOf: ["Layer {0} Head {1}", "第 {0} 层第 {1} 头"], headView: ["Head view", "头视图"],
  heatMap: ["Heat-map", "热力图"], neuronView: ["Neuron view", "神经元视图"], allHeads: ["All heads", "所有头"],
  text: ["Text", "文本"], pair: ["Second text", "第二段文本"], read: ["Read", "读取"],
  threshold: ["Hide weights below", "隐藏小于此值的权重"], hideSpecial: ["Hide special tokens", "隐藏特殊词元"],
  attention: ["Attention", "注意力"], all: ["All", "全部"], sentenceA: ["A", "句 A"], sentenceB: ["B", "句 B"],
  sort: ["Sort by", "排序"], byLayer: ["layer", "层"], lowestFirst: ["lowest first", "从低到高"], logScale: ["Log scale", "对数刻度"],
  show: ["Show", "显示"], oneHead: ["one head", "单个头"], headMean: ["mean of the layer's heads", "该层各头的平均"],
  rollout: ["rollout up to the layer", "累积到该层（rollout）"], query: ["Query token", "查询词元"],
  rowSum: ["row sum", "行和"], weight: ["weight", "权重"],
  token: ["token", "词元"], id: ["id", "编号"], special: ["special", "特殊"],
  product: ["product", "乘积"], scaled: ["scaled", "缩放后"], bias: ["bias", "偏置"],
  keys: ["key k", "键 k"], queries: ["query q", "查询 q"], hiddenKey: ["masked", "被遮蔽"],
  rowsHelp: ["The up and down arrow keys go from row to row.", "用上下方向键逐行查看。"],
  settings: ["Settings", "设置"], export: ["Export", "导出"], theme: ["Theme", "主题"], dark: ["dark", "深色"], light: ["light", "浅色"],
  auto: ["as the system", "跟随系统"], language: ["Language", "语言"],
  entropy: ["entropy (bits)", "熵（比特）"], distance: ["distance", "距离"], first: ["first token / [CLS]", "首词元 / [CLS]"],
  separator: ["separators / [SEP]", "分隔符 / [SEP]"], previous: ["previous token", "前一词元"],
  next: ["next token", "后一词元"], own: ["itself", "自身"], largest: ["largest weight", "最大权重"],
  keysHelp: ["Arrow keys move, Enter or a click locks, Escape frees.", "方向键移动，回车或点击锁定，Esc 解除。"],
  saturation: ["The strongest colour is 1.", "最强的颜色表示 1。"], saturationMore: ["The strongest colour is {0} or more.", "最强的颜色表示 {0} 及以上。"],
  encoder: ["Encoder", "编码器"], decoder: ["Decoder", "解码器"], cross: ["Cross", "交叉"],
  heatOf: ["Attention weights as a heat-map", "注意力权重热力图"],
  arcsOf: ["Attention weights as lines between tokens", "词元之间的注意力连线"],
  neuronOf: ["Query, keys and their product", "查询、键及其乘积"],
  formula: ["weight = softmax(q·k × {0})", "权重 = softmax(q·k × {0})"],
  formulaBias: ["weight = softmax((q·k + bias) × {0})", "权重 = softmax((q·k + 偏置) × {0})"],
  pictureView: ["Picture", "图像"], patch: ["patch ({0}, {1})", "图块 ({0}, {1})"], smooth: ["Smooth", "平滑"],
  fromCls: ["Back to [CLS]", "回到 [CLS]"], answers: ["Answers", "回答"], answerColumn: ["answer", "回答"], score: ["score", "得分"],
  pictureOf: ["The picture under the weights of {0}", "图像与注意力权重：{0}"],
  strongest: ["The largest weight of a patch is {0}.", "图块的最大权重为 {0}。"],
  weightsAs: ["Weights as", "权重显示为"], brightness: ["brightness", "亮度"], colour: ["colour", "颜色"],
  pictureSum: ["{0}: {1} on the patches, {2} on [CLS]", "{0}：图块共 {1}，[CLS] {2}"],
  patchWeight: ["{0}: {3} on patch ({1}, {2})", "{0}：图块 ({1}, {2}) 的权重 {3}"],
  pictureHelp: ["Click a patch to see what it looks at. Arrow keys move, Enter picks the patch, Escape goes back to [CLS].",
    "点击图块，看它关注哪里。方向键移动，回车选择图块，Esc 回到 [CLS]。"],
  addsUp: ["The weights add up to {0}; the largest difference from the model's own is {1}.",
    "权重之和为 {0}；与模型自身数值的最大差为 {1}。"],
};

const LANGUAGES = ["en", "zh"];
let language = 0;

export function addTranslations(more) {
  Object.assign(TRANSLATIONS, more);
}

export function setLanguage(name) {
  language = Math.max(0, LANGUAGES.indexOf(name));
  document.documentElement.lang = LANGUAGES[language];
}

export function translate(key, ...values) {
  const texts = TRANSLATIONS[key];
  if (!texts) throw new Error(`no translation for ${key}`);
  return texts[language].replace(/\{(\d)\}/g, (_, i) => values[i]);
}
